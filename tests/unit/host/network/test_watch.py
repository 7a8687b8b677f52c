"""The watch over the round-trip time of a network of others."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.network import watch
from switchmark.host.network.handle import own_namespace
from switchmark.host.network.watch import LOST_S, RECENT, RoundTripWatch, slowed


def test_a_growth_of_the_median_is_noticed() -> None:
    usual = 100e-6
    assert slowed([usual] * RECENT, usual, 3) == ""
    assert slowed([299e-6] * RECENT, usual, 3) == ""
    assert "grew from 100 to 301 us, above 3 times" in slowed([301e-6] * RECENT, usual, 3)
    assert "have no answer" in slowed([LOST_S] * RECENT, usual, 3)


def test_single_late_probes_and_few_probes_decide_nothing() -> None:
    usual = 100e-6
    late = [LOST_S] * (RECENT // 2 - 1)
    assert slowed([*late, *[usual] * (RECENT - len(late))], usual, 3) == ""
    assert slowed([LOST_S] * (RECENT - 1), usual, 3) == ""


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Iterator[RoundTripWatch]:
    """Probes over loopback, ten times as often as usual; half a second to be lost."""
    monkeypatch.setattr(watch, "INTERVAL_S", 0.01)
    monkeypatch.setattr(watch, "LOST_S", 0.5)
    handle = own_namespace()
    probing = RoundTripWatch((handle, "127.0.0.1"), (handle, "127.0.0.1"), 1000)
    try:
        yield probing
    finally:
        probing.close()
        handle.close()


def wait_for_recent(probing: RoundTripWatch) -> None:
    deadline = time.monotonic() + 30
    while len(probing._recent) < RECENT:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_answers_that_stop_end_the_trial(probes: RoundTripWatch) -> None:
    probes.begin()
    assert 0 < probes.usual_s < 0.5
    wait_for_recent(probes)
    probes._answering.close()
    deadline = time.monotonic() + 30
    with pytest.raises(TrialFailed, match="abort_if: "):
        while time.monotonic() < deadline:
            probes.check()
            time.sleep(0.01)


def test_a_network_without_answers_is_refused(
    probes: RoundTripWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "USUAL", 2)
    probes._answering.close()
    with pytest.raises(TrialFailed, match="are not answered"):
        probes.begin()
