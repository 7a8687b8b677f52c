"""The proof that traffic crossed a network: counters that move, and counters that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.cores.cpu_time import ThreadTimes
from switchmark.host.network.counted import (
    CountedDevice,
    DeviceCount,
    KnownNetwork,
    Relay,
    RelayCount,
)
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


class Relayed(FakeNetwork):
    """A network whose traffic must cross a program."""

    def network(self) -> KnownNetwork:
        relay = Relay("docker-proxy", (1, 2), "h")
        return replace(super().network(), relay=relay)


@pytest.mark.parametrize(
    ("octets", "forwarded", "ran_s", "is_proof"),
    [(9000, 0, 0.2, True), (4000, 0, 0.2, False), (9000, 1, 0.2, False), (9000, 0, 0.0, False)],
)
def test_a_program_on_the_path_must_have_carried_the_bytes(
    octets: int, forwarded: int, ran_s: float, is_proof: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter(
        RelayCount(10 + n * octets, 3 + n * forwarded, ThreadTimes(0.0, {7: (1 + n * ran_s, 0.0)}))
        for n in (0, 1)
    )
    monkeypatch.setattr(crossing, "read_relay", lambda _: next(counts))
    session = f"relay {octets} {forwarded} {ran_s}"
    begun = watch(monkeypatch, [(10, 1000), (110, 7000)], Relayed(), session)
    if not is_proof:
        with pytest.raises(TrialFailed, match="docker-proxy did not carry the traffic"):
            begun.end(5000, 100)
        return
    proof = begun.end(5000, 100, ("192.0.2.2:80", "172.17.0.2:8080"))
    assert proof.relay is not None
    assert (proof.relay.processes, proof.relay.bytes, proof.relay.forwarded_packets) == (2, 9000, 0)
    assert proof.relay.cpu_s == pytest.approx(0.2)
    assert (proof.dialled, proof.answered_at) == ("192.0.2.2:80", "172.17.0.2:8080")
