"""The check before a trial: its requirements, its tolerances and its timeouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from switchmark.errors import TrialFailed
from switchmark.model.campaign import VerifyPolicy
from switchmark.record import Verification
from switchmark.trial import verification
from switchmark.trial.verification import PairEnds, verify, wait_reachable
from tests.unit.trial_fakes import FakeEngine, process

POLICY = VerifyPolicy(frames=16)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "ARRIVAL_TIMEOUT_S", 0.05)
    monkeypatch.setattr(verification, "CONVERGENCE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(verification, "_CONVERGENCE_POLL_S", 0.01)


class Network:
    """Pairs whose frames pass through `deliver(pair, end, sent)`: how many arrive."""

    def __init__(self, pairs: int = 1) -> None:
        self.deliver: Callable[[int, str, int], int] = lambda pair, end, sent: sent
        self.strays: Callable[[int], int] = lambda sent: 0
        self.flood: Callable[[int], int] = lambda sent: 0
        self.witness = 0
        self.fakes = [{"a": FakeEngine(), "b": FakeEngine()} for _ in range(pairs)]
        for number, fakes in enumerate(self.fakes):
            for end, fake in fakes.items():
                fake.on_verify = lambda sent, n=number, e=end: self._pass(n, e, sent)  # type: ignore[misc]
        self.pairs = [
            PairEnds(process(one["a"], "sender", n), process(one["b"], "receiver", n))
            for n, one in enumerate(self.fakes)
        ]

    def _pass(self, number: int, end: str, sent: int) -> None:
        self.fakes[number]["b" if end == "a" else "a"].counts["rx_verification"] += self.deliver(
            number, end, sent
        )
        other = self.fakes[(number + 1) % len(self.fakes)]
        other["b"].counts["rx_foreign"] += self.strays(sent)
        self.witness += self.flood(sent)

    def verify(self, policy: VerifyPolicy = POLICY) -> Verification:
        return verify(self.pairs, policy, lambda: self.witness)


def test_every_frame_arrives() -> None:
    done = Network(pairs=3).verify()
    assert done.passed and (done.frames_sent, done.frames_arrived) == (96, 96)
    assert (done.strays, done.witness_frames) == (0, 0)
    assert done.message == "every frame arrived at its port and at no other"


def test_a_switch_without_witness() -> None:
    done = verify(Network().pairs, POLICY, lambda: None)
    assert done.passed and done.witness_frames is None


def test_earlier_frames_do_not_count() -> None:
    net = Network(pairs=2)
    net.witness = 7
    for ends in net.fakes:
        for fake in ends.values():
            fake.counts.update(rx_verification=9, rx_foreign=5)
    done = net.verify()
    assert done.passed and (done.frames_arrived, done.strays, done.witness_frames) == (64, 0, 0)


def test_lost_frames_get_no_second_chance() -> None:
    net = Network()
    rounds: list[int] = []

    def lossy(pair: int, end: str, sent: int) -> int:
        rounds.append(sent)
        return sent - 1 if len(rounds) == 1 else sent

    net.deliver = lossy
    done = net.verify()
    assert not done.passed and done.message == "31 of 32 frames arrived"
    assert len(rounds) == 2, "one attempt, both ways"


def test_loss_up_to_the_policy_is_allowed() -> None:
    net = Network()
    net.deliver = lambda pair, end, sent: sent - 1
    assert net.verify(VerifyPolicy(min_arrived_ratio=0.9)).passed
    assert not net.verify(VerifyPolicy(min_arrived_ratio=0.95)).passed


def test_strays_are_flooding() -> None:
    net = Network(pairs=2)
    net.strays = lambda sent: 1
    done = net.verify()
    assert not done.passed and done.strays == 4
    assert done.message == "4 frames reached another pair's port (flooding)"
    assert net.verify(VerifyPolicy(max_strays=4)).passed


def test_witness_frames_are_flooding() -> None:
    net = Network()
    net.flood = lambda sent: 2
    done = net.verify()
    assert not done.passed and done.witness_frames == 4
    assert done.message == "4 frames left the switch's third port (flooding)"


def test_a_switch_that_settles_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open vSwitch goes on flooding by its cache for up to half a second after learning."""
    monkeypatch.setattr(verification, "CONVERGENCE_TIMEOUT_S", 30.0)  # four rounds, however slow
    net = Network()
    rounds = iter([16, 16, 3, 0])
    net.flood = lambda sent: next(rounds, 0)
    done = net.verify()
    assert done.passed and done.witness_frames == 0


def test_late_teaching_frames_are_not_taken_for_counted_frames() -> None:
    net = Network()
    extra = iter([2])
    net.deliver = lambda pair, end, sent: sent + next(extra, 0)
    done = net.verify()
    assert done.passed and (done.frames_sent, done.frames_arrived) == (32, 32)


def test_copies_of_frames_never_pass() -> None:
    net = Network()
    net.deliver = lambda pair, end, sent: 2 * sent
    done = net.verify()
    assert not done.passed and done.message == "64 of 32 frames arrived"


def test_both_faults_are_reported() -> None:
    net = Network(pairs=2)
    net.deliver, net.flood = (lambda pair, end, sent: 0), (lambda sent: sent)
    done = net.verify()
    assert done.message.startswith("0 of 64 frames arrived; 64 frames left")


def test_reachable_at_once() -> None:
    net = Network(pairs=2)
    wait_reachable(net.pairs, 1.0)
    heard = [fake.counts["rx_verification"] for ends in net.fakes for fake in ends.values()]
    assert heard == [2] * 4


def test_a_link_that_comes_up_late() -> None:
    net = Network(pairs=2)
    sent_before = iter(range(6))
    net.deliver = lambda pair, end, sent: 0 if next(sent_before, None) is not None else sent
    wait_reachable(net.pairs, 5.0)
    assert all(fake.counts["rx_verification"] for ends in net.fakes for fake in ends.values())


@pytest.mark.parametrize(("pair", "end"), [(0, "a"), (1, "b")])
def test_the_silent_direction_is_named(pair: int, end: str) -> None:
    net = Network(pairs=2)
    net.deliver = lambda number, from_end, sent: 0 if (number, from_end) == (pair, end) else sent
    with pytest.raises(TrialFailed, match=f"no frame of pair {pair} reached .* from end {end}"):
        wait_reachable(net.pairs, 0.05)


def test_frames_that_arrive_changed_are_not_called_unforwarded() -> None:
    """A hidden tag makes different frames."""
    net = Network()
    net.deliver = lambda number, end, sent: 0
    with pytest.raises(TrialFailed, match=r"0\.1 s: the switch does not forward$"):
        wait_reachable(net.pairs, 0.05)
    net.fakes[0]["b"].counts["rx_other"] = 12
    with pytest.raises(TrialFailed, match="other frames arrived: 12 of another kind"):
        wait_reachable(net.pairs, 0.05)


def test_pairs_that_are_reached_are_left_alone() -> None:
    net = Network(pairs=2)
    net.deliver = lambda number, end, sent: sent if number == 0 else 0
    with pytest.raises(TrialFailed):
        wait_reachable(net.pairs, 0.5)
    assert net.fakes[0]["a"].commands.count("verify 2") == 1
    assert net.fakes[1]["a"].commands.count("verify 2") > 1
