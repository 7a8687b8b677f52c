"""The measured check of a policer: far above its CIR it forwards the CIR, and below it everything.

Attempts that other programs disturbed do not judge the policer and are repeated. All others must
agree (`policing_judge.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from switchmark.engine.events import IntervalEvent
from switchmark.engine.loads import load
from switchmark.errors import TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.model.choices import FCS_BYTES
from switchmark.record.function import Policing
from switchmark.switch.support.base import Switch
from switchmark.trial.policing_judge import (
    ENOUGH,
    MARGIN,
    SETTLE_S,
    TOLERANCE,
    TOO_LITTLE,
    Bucket,
    Curve,
    Verdict,
    judge,
)
from switchmark.trial.traffic import Tick, run_traffic
from switchmark.trial.verification import PairEnds

BELOW = 0.95  # load as a share of the CIR
ABOVE = 3.0  # load as a multiple of the CIR
BELOW_S, BELOW_FRAMES = 0.5, 200  # shortest measurement below the CIR
LIGHT = 0.2  # share of the highest rate of the senders, at which switch and testers lose nothing
TOLERANCE_UNREACHED = 0.5  # far below an unreachable CIR, since rings can also lose frames
REACH_S, REACH_TRIES = 0.1, 3  # to learn whether the senders reach the CIR
ATTEMPTS = 6
CONFIRMATIONS = 2  # judged attempts by which a policer is called wrong
WINDOWS = 5  # lengths of a window that the measurement above the CIR takes
LONGEST_S = 8.0
SAMPLE_S, SHORTEST_SAMPLE_S = 0.005, 0.001
SAMPLES_IN_FILL = 8  # while the bucket fills
BURST_S, MOST_BURST = 0.001, 32
LOST_SHARE = 0.003  # the switch lost this share of the forwarded frames behind its policer
DISAGREEING = "undisturbed attempts disagree"


@dataclass(frozen=True, slots=True)
class Check:
    """The traffic by which a policer is checked."""

    switch: Switch
    streams: Sequence[PairEnds]
    bucket: Bucket
    tick: Tick

    def run(self, rate: float, duration_s: float) -> int:
        """Send at a multiple of the CIR (infinity: at the highest rate) for this time; return the
        frames that the switch lost behind its policer."""
        sample_s = min(SAMPLE_S, max(SHORTEST_SAMPLE_S, self.bucket.fill_s / SAMPLES_IN_FILL))
        every = {"interval": f"{sample_s:.6f}"}
        # A sender leaves out bursts that are late by more than a millisecond.
        rate_pps = rate * self.bucket.cir_pps
        burst = round(min(MOST_BURST, max(1.0, BURST_S * rate_pps)))
        load_rate: str | int = "max" if rate == math.inf else round(rate_pps)
        options = {**every, "rate": load_rate, "burst": burst}
        before = self._count_lost()
        run_traffic(
            [pair.a for pair in self.streams], [pair.b for pair in self.streams], duration_s,
            self.tick, source_options=[options] * len(self.streams),
            sink_options=every,
        )  # fmt: skip
        return self._count_lost() - before

    def _count_lost(self) -> int:
        """Return the frames that the switch has lost when it sent them."""
        return sum(port.tx_dropped for port in self.switch.counters().ports.values())

    def reach(self) -> float:
        """Return the most frames that each sender offered for a short time, as a multiple of the
        CIR."""
        most = 0.0
        for _ in range(REACH_TRIES):
            self.run(math.inf, REACH_S)
            most = max(most, min(map(self._offered_share, self.streams)))
            if most >= ENOUGH:
                break
        return most

    def _offered_share(self, pair: PairEnds) -> float:
        """Return the offered frames as a multiple of the CIR."""
        result = pair.a.result
        due = self.bucket.cir_pps * result.duration_ns / 1e9
        return result.totals.tx_offered / due if due else 0.0

    def above_s(self) -> float:
        """The duration of an attempt above the CIR: the bucket becomes empty, then windows."""
        emptying_s = MARGIN * self.bucket.fill_s / (ABOVE - MARGIN)
        return emptying_s + SETTLE_S + WINDOWS * self.bucket.window_s

    def above(self, rate: float) -> Verdict:
        """Attempt to judge the policer far above its CIR."""
        lost = self.run(rate, self.above_s())
        lost_behind = lost > LOST_SHARE * sum(
            pair.b.result.totals.rx_frames for pair in self.streams
        )
        return worst_of([
            judge(self.bucket, offered_of(pair), arrived_of(pair), list(drops_of(pair)),
                  lost_behind=lost_behind)
            for pair in self.streams
        ])  # fmt: skip

    def below_s(self) -> float:
        """The duration of an attempt below the CIR."""
        return max(BELOW_S, BELOW_FRAMES / self.bucket.cir_pps)

    def below(self, rate: float = BELOW) -> Verdict:
        """Attempt to judge the policer below its CIR, at a share of it."""
        time.sleep(self.bucket.fill_s)  # the bucket is full after this time
        lost = self.run(rate, self.below_s())
        verdicts = []
        for pair in self.streams:
            counts = load(f"pair {pair.a.pair}", pair.a.result, pair.b.result)
            is_disturbed = lost or pair.b.result.totals.rx_socket_drops
            if counts.loss_ratio > TOLERANCE and is_disturbed:
                verdicts.append(Verdict(None, "frames were lost elsewhere"))
            else:
                verdicts.append(Verdict(-counts.loss_ratio))
        return worst_of(verdicts)


def measure_policing(
    switch: Switch, table: FunctionTable, streams: Sequence[PairEnds], tick: Tick
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
    check = Check(switch, streams, bucket, tick)
    if max(check.above_s(), bucket.fill_s + check.below_s()) > LONGEST_S:
        reason = f"frames or a burst at this CIR take more than {LONGEST_S:g} s"
        return note.model_copy(update={"unjudged": reason})
    reach = check.reach()
    if reach < ENOUGH:
        share, tolerance = min(BELOW, LIGHT * reach), TOLERANCE_UNREACHED
        above = Verdict(None, f"{TOO_LITTLE}: at most {reach:.2%} of the CIR")
    else:
        share, tolerance = BELOW, TOLERANCE
        above = until_judged(check.above)
    below = least_loss(lambda: check.below(share))
    for load_text, verdict in ((f"at {share:.3g} of", below), ("above", above)):
        if verdict.error is not None and abs(verdict.error) > tolerance:
            compared = "more" if verdict.error > 0 else "fewer"
            raise TrialFailed(
                f"{switch.name} does not keep the rate of its policer: {load_text} the CIR of "
                f"{policer.cir_bps} bit/s it forwarded {abs(verdict.error):.1%} {compared} frames "
                f"of {table.frame_bytes} bytes than a token bucket passes"
            )
    unjudged = None if above.error is not None else above.reason
    return note.model_copy(
        update={"error": above.error, "error_below": below.error, "unjudged": unjudged}
    )


def least_loss(attempt: Callable[[], Verdict]) -> Verdict:
    """Repeat attempts that lose frames below the CIR, since a stall can only add losses. Return
    the one with the least loss."""
    verdicts: list[Verdict] = []
    for _ in range(ATTEMPTS):
        verdicts.append(attempt())
        if verdicts[-1].error is not None and not verdicts[-1].is_wrong:
            break
    judged = [verdict for verdict in verdicts if verdict.error is not None]
    return max(judged or verdicts, key=lambda verdict: verdict.error or 0.0)


def until_judged(attempt: Callable[[float], Verdict]) -> Verdict:
    """Repeat disturbed attempts, at the highest rate if the senders offered too little. An attempt
    that shows a wrong policer is also repeated: all that were not disturbed must agree."""
    judged: list[Verdict] = []
    rate = ABOVE
    for _ in range(ATTEMPTS):
        verdict = attempt(rate)
        if verdict.reason == TOO_LITTLE:
            rate = math.inf
        if verdict.error is not None:
            judged.append(verdict)
            if not verdict.is_wrong or len(judged) == CONFIRMATIONS:
                break
    if not judged:
        return verdict
    if not all(each.is_wrong == judged[0].is_wrong for each in judged):
        return Verdict(None, DISAGREEING)
    return judged[0]


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of several streams: that of a wrong one, or of a disturbed one, or the
    largest error."""
    wrong = [verdict for verdict in verdicts if verdict.is_wrong]
    disturbed = [verdict for verdict in verdicts if verdict.error is None]
    return max(wrong or disturbed or verdicts, key=lambda verdict: abs(verdict.error or 0.0))


def offered_of(pair: PairEnds) -> Curve:
    """Return the frames that a sender offered, until its last one."""
    end_s = (pair.a.started_ns + pair.a.result.duration_ns) / 1e9
    return _curve(pair.a.intervals, [sample.tx_offered for sample in pair.a.intervals], end_s)


def arrived_of(pair: PairEnds) -> Curve:
    """Return the frames that arrived at a receiver."""
    return _curve(pair.b.intervals, [sample.rx_frames for sample in pair.b.intervals])


def drops_of(pair: PairEnds) -> Iterator[float]:
    """Yield the instants at which a receiver had no room."""
    for sample in pair.b.intervals:
        if sample.rx_socket_drops:
            yield (sample.t_ns - sample.duration_ns) / 1e9
            yield sample.t_ns / 1e9


def _curve(
    samples: Sequence[IntervalEvent], counts: Sequence[int], end_s: float = math.inf
) -> Curve:
    """Return the sum of the counts at the end of each sample, up to an instant."""
    if not samples:
        return Curve((0.0,), (0,))
    begin_s = (samples[0].t_ns - samples[0].duration_ns) / 1e9
    times_s = [begin_s, *(sample.t_ns / 1e9 for sample in samples)]
    sums = list(accumulate(counts, initial=0))
    count = sum(time_s <= end_s for time_s in times_s)
    return Curve(times_s[:count], sums[:count])
