"""The proof that traffic crossed a network: counters that move, and counters that do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.network.counted import CountedDevice, DeviceCount, KnownNetwork
from switchmark.trial import crossing
from switchmark.trial.crossing import CrossingWatch

DEVICES = (CountedDevice(None, "va"), CountedDevice("x", "vb", "netns:b"))


class FakeNetwork:
    """A switch whose devices count as the test sets."""

    def __init__(self, digests: Sequence[str] = ("s", "s"), *, others: bool = False) -> None:
        self._digests = iter(digests)
        self._others = others

    def network(self) -> KnownNetwork:
        return KnownNetwork("br0", DEVICES, digest=lambda: next(self._digests), others=self._others)


def watch(
    monkeypatch: pytest.MonkeyPatch, counts: Sequence[tuple[int, int]], switch: Any, session: str
) -> CrossingWatch:
    """Begin; each reading of both devices gives the next (packets, bytes)."""
    left = iter(counts)

    def read(devices: Sequence[CountedDevice]) -> dict[CountedDevice, DeviceCount]:
        now = DeviceCount(*next(left))
        return dict.fromkeys(devices, now)

    monkeypatch.setattr(crossing, "read_counts", read)
    monkeypatch.setattr(crossing, "SILENCE_S", 0.01)
    begun = CrossingWatch.begin(switch, session)
    assert begun is not None
    return begun


def test_counters_that_move_prove_the_crossing(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = watch(monkeypatch, [(10, 1000), (110, 7000)], FakeNetwork(), "one").end(5000, 100)
    assert [(one.packets, one.bytes) for one in proof.devices] == [(100, 6000)] * 2
    assert [one.namespace for one in proof.devices] == ["this host", "netns:b"]
    assert not proof.shared and not proof.changed


def test_counters_that_do_not_move_fail_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = watch(monkeypatch, [(10, 1000), (12, 1200)], FakeNetwork(), "two")
    with pytest.raises(TrialFailed, match=r"did not cross va .*200 bytes.*received 5000"):
        begun.end(5000, 100)


def test_devices_of_a_group_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair of a network has its own devices; together they carry the traffic."""
    grouped = (CountedDevice("a", "e", group="ends"), CountedDevice("b", "e", group="ends"))
    monkeypatch.setattr(FakeNetwork, "network", lambda _: KnownNetwork("n", grouped))
    begun = watch(monkeypatch, [(0, 0), (40, 3000)], FakeNetwork(), "five")
    assert len(begun.end(6000, 100).devices) == 2
    begun = watch(monkeypatch, [(0, 0), (40, 3000)], FakeNetwork(), "six")
    with pytest.raises(TrialFailed, match=r"did not cross e \(a\), e \(b\): counted 6000 bytes"):
        begun.end(7000, 100)


def test_other_senders_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = [(0, 0), (0, 0), (0, 0), (9, 900)]
    busy = [(0, 0), (50, 9), (50, 9), (99, 900)]
    for counts, shared in ((quiet, False), (busy, True)):
        network = FakeNetwork(others=True)
        assert watch(monkeypatch, counts, network, "three").end(10, 100).shared is shared


def test_a_change_between_trials_or_within_one_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [(0, 0), (1, 100)]
    states = (("s", "s"), ("s", "s"), ("s", "t"), ("t", "t"))
    found = [
        watch(monkeypatch, counts, FakeNetwork(digests), "four").end(10, 1).changed
        for digests in states
    ]
    assert found == [False, False, True, True]


def test_a_switch_without_devices_has_no_crossing() -> None:
    assert CrossingWatch.begin(object(), "five") is None  # type: ignore[arg-type]
