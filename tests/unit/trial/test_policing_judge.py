"""The judge of a policer, against simulated token buckets: a CIR that is 5 % off is found, and a
right one passes, also if the switch and the testers stall. An attempt that stalls too long for
the bucket is disturbed, and never wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from switchmark.trial.policing_judge import SETTLE_S, Bucket, Curve, Verdict, judge

STEP_S, SAMPLE_S = 0.0005, 0.005
DEEP = Bucket(cir_pps=2_450, cbs_frames=1_000)  # 0.4 s
SHALLOW = Bucket(cir_pps=83_000, cbs_frames=170)  # 2 ms
Stall = Callable[[float], bool]  # is the program without its core at this time?


@dataclass
class Stalls:
    """Times at which a program has no core: 3 to 5 ms of each 8 ms, and longer ones."""

    seed: int
    share: float = 0.5
    longest_s: float = 0.0

    def __post_init__(self) -> None:
        self.random, self.until_s, self.is_away = random.Random(self.seed), 0.0, False

    def __call__(self, time_s: float) -> bool:
        while time_s >= self.until_s:
            self.is_away = not self.is_away
            length_s = 0.008 * (self.share if self.is_away else 1 - self.share)
            if self.is_away and self.random.random() < 0.02:
                length_s = self.longest_s or length_s
            self.until_s += length_s * self.random.uniform(0.75, 1.25)
        return self.is_away


def never(time_s: float) -> bool:
    """Keep the core."""
    del time_s
    return False


def attempt(
    bucket: Bucket, factor: float, *, sender: Stall = never, switch: Stall = never,
    receiver: Stall = never, load: float = 3.0, ring: int = 1024,
) -> Verdict:  # fmt: skip
    """Judge a simulated policer whose rate is a multiple of the CIR, and whose bucket, rings and
    stalls are known. Frames without room in a ring are lost."""
    end_s = 1.5 * bucket.fill_s + SETTLE_S + 5 * bucket.window_s
    tokens, refilled_s, due = bucket.cbs_frames, 0.0, 0.0
    entering = leaving = offered = arrived = lost = 0
    sent, received = [(0.0, 0.0)], [(0.0, 0.0)]
    next_s = SAMPLE_S
    for number in range(int(end_s / STEP_S)):
        now_s = number * STEP_S
        due += load * bucket.cir_pps * STEP_S
        if not sender(now_s):
            due = min(due, load * bucket.cir_pps * 0.001 + 1)  # late frames are left out
            accepted = min(int(due), ring - entering)
            due -= int(due)
            entering, offered = entering + accepted, offered + accepted
        if not switch(now_s):
            earned = bucket.cir_pps * factor * (now_s - refilled_s)
            tokens, refilled_s = min(bucket.cbs_frames, tokens + earned), now_s
            passing = min(entering, int(tokens))
            tokens, entering = tokens - passing, 0
            room = ring - leaving
            lost += max(0, passing - room)
            leaving += min(passing, room)
        if not receiver(now_s):
            arrived, leaving = arrived + leaving, 0
        if now_s >= next_s:
            next_s += SAMPLE_S
            if not sender(now_s):
                sent.append((now_s, offered))
            if not receiver(now_s):
                received.append((now_s, arrived))
    curves = (Curve(*zip(*points, strict=True)) for points in (sent, received))
    return judge(bucket, *curves, lost_behind=lost > 0.003 * arrived)


@pytest.mark.parametrize("factor", [0.5, 0.95, 1.0, 1.05, 2.0])
@pytest.mark.parametrize("bucket", [DEEP, SHALLOW])
def test_rate_of_an_undisturbed_policer_is_measured(bucket: Bucket, factor: float) -> None:
    verdict = attempt(bucket, factor)
    assert verdict.error == pytest.approx(factor - 1, abs=0.004)
    assert verdict.is_wrong == (factor != 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [0.95, 1.0, 1.05])
def test_stalls_shorter_than_the_bucket_change_nothing(factor: float, seed: int) -> None:
    """Two programs on each core, and stalls of 60 ms now and then."""
    stalls = [Stalls(10 * seed + k, longest_s=0.06) for k in range(3)]
    verdict = attempt(DEEP, factor, sender=stalls[0], switch=stalls[1], receiver=stalls[2], load=6)
    assert verdict.error == pytest.approx(factor - 1, abs=0.008)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [0.95, 1.0, 1.05])
def test_stalls_longer_than_the_bucket_are_not_called_an_error(factor: float, seed: int) -> None:
    """Tokens are lost in each stall, so too few frames pass; only too many would be an error."""
    verdict = attempt(SHALLOW, factor, switch=Stalls(seed), load=6)
    assert verdict.error is None
    assert verdict.reason


def test_too_many_frames_are_an_error_whatever_happens() -> None:
    """No stall lets more frames pass than the bucket."""
    verdict = attempt(SHALLOW, 2.0, switch=Stalls(1, share=0.1), load=6)
    assert verdict.error is not None
    assert verdict.is_wrong


@pytest.mark.parametrize("factor", [0.95, 1.0])
def test_frames_lost_behind_the_policer_are_not_called_an_error(factor: float) -> None:
    """A receiver that is away loses frames of a short ring."""
    verdict = attempt(DEEP, factor, receiver=Stalls(3, longest_s=0.1), ring=16)
    assert verdict.error is None


def test_receiver_without_room_is_not_called_an_error() -> None:
    """The windows in which a socket had no room are left out, here all."""
    times_s = [k * SAMPLE_S for k in range(600)]
    offered = Curve(times_s, [3 * DEEP.cir_pps * time_s for time_s in times_s])
    arrived = Curve(times_s, [DEEP.cbs_frames + 0.9 * DEEP.cir_pps * time_s for time_s in times_s])
    assert judge(DEEP, offered, arrived).error == pytest.approx(-0.1, abs=0.001)
    assert judge(DEEP, offered, arrived, times_s[::20]).error is None


@pytest.mark.parametrize("load", [0.5, 1.0])
def test_load_below_the_rate_judges_nothing(load: float) -> None:
    """The bucket is never empty, so the policer shows nothing of its rate."""
    assert attempt(DEEP, 1.0, load=load) == Verdict(None, "the senders could not offer enough")


def test_rate_that_changes_in_between_judges_nothing() -> None:
    """Parts of the measurement must agree."""
    times_s = [k * SAMPLE_S for k in range(900)]
    offered = Curve(times_s, [4 * DEEP.cir_pps * time_s for time_s in times_s])
    faster = [DEEP.cir_pps * (time_s + 0.1 * time_s**2) for time_s in times_s]
    assert judge(DEEP, offered, Curve(times_s, faster)).error is None


def test_silence_judges_nothing() -> None:
    times_s = [k * SAMPLE_S for k in range(600)]
    offered = Curve(times_s, [3 * DEEP.cir_pps * time_s for time_s in times_s])
    assert judge(DEEP, offered, Curve((0.0,), (0,))).error is None
    assert judge(DEEP, Curve((0.0,), (0,)), Curve((0.0,), (0,))).error is None
