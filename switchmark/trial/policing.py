"""The measured check of a policer: above its CIR it forwards the CIR, and below it everything.

A sender on a busy machine pauses and catches up. The check therefore computes the frames that a
token bucket would pass from the frames that the sender offered in each sample, and compares this
number with the frames that arrived. An attempt in which a CIR 5 % higher would have passed nearly
as many frames, or in which a receiver had no room, does not judge the policer and is repeated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from switchmark.engine.events import IntervalEvent
from switchmark.engine.loads import load
from switchmark.errors import TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.record.function import Policing
from switchmark.trial.traffic import Tick, run_traffic
from switchmark.trial.verification import PairEnds

FCS_BYTES = 4
BELOW = 0.95  # load as a share of the CIR
ABOVE = math.inf  # everything that the senders can offer
TOLERANCE = 0.025  # relative; an error of 5 % is beyond it
HIGHER, NOTICED = 1.05, 0.03  # a CIR so much higher must pass so many more frames
ATTEMPTS = 4
FAR_BELOW = 0.7  # load as a share of the CIR
SHORTEST_S, LONGEST_S = 1.0, 4.0
FEWEST_FRAMES = 400  # at the CIR, so that a whole frame is 0.25 %
SHARE_OF_BURST = 0.2  # most of a burst in the duration, as a share of the CIR
SAMPLE_S = 0.02


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket, in frames."""

    cir_pps: float
    cbs_frames: float

    def passed(self, samples: Iterable[tuple[float, int]]) -> float:
        """Return the frames that pass of those offered, as pairs of seconds and frames. The bucket
        is full at first."""
        tokens, total = self.cbs_frames, 0.0
        for seconds, offered in samples:
            tokens += self.cir_pps * seconds
            passing = min(float(offered), tokens)
            total += passing
            tokens = min(self.cbs_frames, tokens - passing)
        return total


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run at a load: the relative difference of the frames that passed from those that a token
    bucket passes, and True if the run shows a wrong CIR."""

    error: float
    is_judged: bool
    is_far_below: bool = False  # the senders offered so little that no further attempt can judge


def measure_policing(
    switch: str, table: FunctionTable, streams: Sequence[PairEnds], tick: Tick
) -> Policing | None:
    """Return the error of the policer; None if the table has none, or frames have several sizes.

    Raises `TrialFailed` if the policer does not keep its rate."""
    policer = table.policer
    if policer is None or table.smallest_frame_bytes != table.frame_bytes:
        return None
    bytes_each = table.frame_bytes - FCS_BYTES
    bucket = Bucket(policer.cir_bps / 8 / bytes_each, policer.cbs_bytes / bytes_each)
    note = Policing(
        frame_bytes=table.frame_bytes, cir_bps=policer.cir_bps, cbs_bytes=policer.cbs_bytes
    )
    fill_s = bucket.cbs_frames / bucket.cir_pps
    duration_s = max(SHORTEST_S, FEWEST_FRAMES / bucket.cir_pps, fill_s / SHARE_OF_BURST)
    if duration_s > LONGEST_S:
        reason = f"frames or a burst at this CIR take more than {LONGEST_S:g} s"
        return note.model_copy(update={"unjudged": reason})

    def attempt(share: float) -> Attempt:
        time.sleep(fill_s)  # the bucket is full after this time
        return _attempt(streams, bucket, share, duration_s, tick)

    below, above = attempt_until_judged(attempt, BELOW), attempt_until_judged(attempt, ABOVE)
    if below is None or above is None:
        reason = "the senders could not offer enough, or the receivers had no room"
        return note.model_copy(update={"unjudged": reason})
    for load_text, result in ((f"at {BELOW:g} of", below), ("above", above)):
        if abs(result.error) > TOLERANCE:
            compared = "more" if result.error > 0 else "fewer"
            raise TrialFailed(
                f"{switch} does not keep the rate of its policer: {load_text} the CIR of "
                f"{policer.cir_bps} bit/s it forwarded {abs(result.error):.1%} {compared} frames "
                f"of {table.frame_bytes} bytes than a token bucket passes"
            )
    return note.model_copy(update={"error": above.error, "error_below": below.error})


def attempt_until_judged(attempt: Callable[[float], Attempt], share: float) -> Attempt | None:
    """Try until an attempt judges the policer and agrees. Return the judged attempt with the
    smallest error; None if there is none."""
    judging = []
    for _ in range(ATTEMPTS):
        result = attempt(share)
        if result.is_judged:
            judging.append(result)
            if abs(result.error) <= TOLERANCE:
                break
        elif result.is_far_below:
            break
    return min(judging, key=lambda result: abs(result.error), default=None)


def _attempt(
    streams: Sequence[PairEnds], bucket: Bucket, share: float, duration_s: float, tick: Tick
) -> Attempt:
    senders, receivers = [pair.a for pair in streams], [pair.b for pair in streams]
    every = {"interval": f"{SAMPLE_S:.6f}"}
    rate: str | int = "max" if share == ABOVE else round(share * bucket.cir_pps)
    run_traffic(
        senders, receivers, duration_s, tick,
        source_options=[{**every, "rate": rate}] * len(senders), sink_options=every,
    )  # fmt: skip
    return worst_of([judge(pair, bucket, share) for pair in streams])


def judge(pair: PairEnds, bucket: Bucket, share: float) -> Attempt:
    """Return the error of a stream."""
    samples = offered_of(pair.a.intervals, pair.a.result.duration_ns)
    expected = bucket.passed(samples)
    higher = Bucket(bucket.cir_pps * HIGHER, bucket.cbs_frames).passed(samples)
    counts = load(f"pair {pair.a.pair}", pair.a.result, pair.b.result)
    offered = sum(frames for _, frames in samples)
    is_far_below = offered < FAR_BELOW * bucket.cir_pps * sum(seconds for seconds, _ in samples)
    # So far below the CIR, lost frames would be those of an overloaded switch.
    is_below = share < 1 and not is_far_below
    shows_error = is_below or higher >= expected * (1 + NOTICED)
    has_room = pair.b.result.totals.rx_socket_drops == 0
    if not expected:
        return Attempt(0.0, is_judged=False)
    return Attempt(counts.unique_frames / expected - 1, shows_error and has_room, is_far_below)


def offered_of(intervals: Sequence[IntervalEvent], duration_ns: int) -> list[tuple[float, int]]:
    """Return seconds and frames of a sender's samples, without the time after its last frame."""
    samples, left_ns = [], duration_ns
    for sample in intervals:
        counted_ns = min(sample.duration_ns, left_ns)
        left_ns -= counted_ns
        samples.append((counted_ns / 1e9, sample.tx_offered))
    return samples


def worst_of(attempts: Sequence[Attempt]) -> Attempt:
    """Return the largest error of the streams; unjudged if a stream is."""
    error = max((attempt.error for attempt in attempts), key=abs)
    return Attempt(
        error,
        all(attempt.is_judged for attempt in attempts),
        any(attempt.is_far_below for attempt in attempts),
    )
