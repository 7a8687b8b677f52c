"""One-way times between two hosts: converts the timestamps of one clock to another, within bounds.

The hosts' clocks are compared before a timed run, and each receiver gets the offset to the clock of
its sender. After the run the clocks are compared again. A measured time is the true time plus a
constant, which lies within the bounds of both comparisons. Half the distance of the bounds is the
uncertainty, which is reported with every figure. It includes the drift of the clocks between the
comparisons, if the rate of the drift is constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from switchmark.engine import loads
from switchmark.engine.events import Delays, EngineCounters, ProbeStream, Result, TimedDelays
from switchmark.engine.process import EngineProcess, counters_of
from switchmark.errors import TrialFailed
from switchmark.record import Direction, DirectionLatency, Latency
from switchmark.remote.contact import ClockReading
from switchmark.statistics.histogram import Histogram
from switchmark.statistics.means import of_all
from switchmark.statistics.order_statistics import percentile_intervals_ns
from switchmark.trial.beside import probe_load, probes_of
from switchmark.trial.quality import delay_variation
from switchmark.trial.verification import PairEnds


def timed_by(ends: Sequence[Result | ProbeStream]) -> list[TimedDelays]:
    """Return the delays that each end has timed. Raises `TrialFailed` if an end has timed none."""
    delays = [end.latency for end in ends]
    if None in delays:
        raise TrialFailed("a traffic application timed no frames, although timing was requested")
    return [each for each in delays if each is not None]


def merge_latency(
    kind: Literal["rtt", "one_way"], timed: Sequence[TimedDelays], lost: int, nothing: str
) -> Latency:
    """Return one distribution of the delays that several engines timed, from merged histograms.

    Raises `TrialFailed` with the message `nothing` if there are no samples."""
    counted = [one for one in timed if one.count]
    if not counted:
        raise TrialFailed(f"{nothing}: there is no latency to report")
    actual = Histogram.merged(one.from_actual for one in timed)
    intended = Histogram.merged(one.from_intended for one in timed)
    mean, stdev = of_all((one.count, one.mean_ns, one.stdev_ns) for one in counted)
    late = [one.intended for one in counted]
    max_ns, late_max_ns = max(one.max_ns for one in counted), max(one.max_ns for one in late)
    late_mean, late_stdev = of_all((one.count, one.mean_ns, one.stdev_ns) for one in late)
    return Latency(
        kind=kind,
        count=sum(one.count for one in counted),
        min_ns=min(one.min_ns for one in counted),
        mean_ns=mean,
        stdev_ns=stdev,
        max_ns=max_ns,
        percentiles_ns=actual.percentiles_ns(max_ns=max_ns),
        intended_percentiles_ns=intended.percentiles_ns(max_ns=late_max_ns),
        percentile_intervals_ns=percentile_intervals_ns(actual, max_ns),
        intended_percentile_intervals_ns=percentile_intervals_ns(intended, late_max_ns),
        intended_mean_ns=late_mean,
        intended_stdev_ns=late_stdev,
        intended_max_ns=late_max_ns,
        histogram=actual,
        intended_histogram=intended,
        lost=lost,
        variation=delay_variation(timed),
    )


@dataclass(frozen=True, slots=True)
class _TimedStream:
    """The times that the receiver of one stream measured."""

    direction: Direction
    delays: TimedDelays
    lost_frames: int
    uncertainty_ns: int | None  # from two hosts' clocks; None: one clock was used


def frame_times(streams: Sequence[PairEnds], timed: TimedRun | None) -> Latency:
    """Return the one-way times of all frames; `timed` is a run between two hosts. Raises
    `TrialFailed` if no frame arrived, or none in one direction."""
    each = [loads.load(f"pair {one.a.pair}", one.a.result, one.b.result) for one in streams]
    lost = [
        load.lost_frames - lost_while_away([one], load.lost_frames)
        for one, load in zip(streams, each, strict=True)
    ]
    return _merge(streams, timed_by([one.b.result for one in streams]), lost, timed, "frame")


def probe_times(streams: Sequence[PairEnds], timed: TimedRun | None) -> Latency:
    """Return the one-way times of the probes alone; see `frame_times`."""
    sent, arrived = probes_of(one.a for one in streams), probes_of(one.b for one in streams)
    lost = [probe_load([a], [b]).lost_frames for a, b in zip(sent, arrived, strict=True)]
    return _merge(streams, timed_by(arrived), lost, timed, "probe")


def lost_while_away(streams: Iterable[PairEnds], lost_frames: int) -> int:
    """Return the number of frames that were lost while a receiver was away from its core. The
    switch did not lose these frames."""
    return min(lost_frames, sum(one.b.result.totals.rx_missed_away for one in streams))


def _merge(
    streams: Sequence[PairEnds],
    delays: Sequence[TimedDelays],
    lost: Sequence[int],
    timed: TimedRun | None,
    unit: Literal["frame", "probe"],
) -> Latency:
    if timed is None:
        unsure: list[int | None] = [None] * len(streams)
    else:
        corrections = timed.end()
        delays = [corrected(one, by) for one, by in zip(delays, corrections, strict=True)]
        unsure = [one.uncertainty_ns for one in corrections]
    directions: list[Direction] = [one.direction for one in streams]
    parts = [_TimedStream(*one) for one in zip(directions, delays, lost, unsure, strict=True)]
    whole = _together(parts, f"no {unit} arrived")
    ways = list(dict.fromkeys(directions))
    if len(ways) < 2:
        return whole
    apart = [
        DirectionLatency(
            direction=way,
            latency=_together(
                [one for one in parts if one.direction == way], f"no {unit} arrived going {way}"
            ),
        )
        for way in ways
    ]
    return whole.model_copy(update={"directions": apart})


def _together(parts: Sequence[_TimedStream], nothing: str) -> Latency:
    lost = sum(one.lost_frames for one in parts)
    merged = merge_latency("one_way", [one.delays for one in parts], lost, nothing)
    unsure = [one.uncertainty_ns for one in parts if one.uncertainty_ns is not None]
    if not unsure:
        return merged
    return merged.model_copy(update={"clock_uncertainty_ns": float(max(unsure))})


# The receivers measure times that are longer by this margin and by the uncertainty, because their
# counters cannot hold negative times. The correction subtracts it. Clocks drift apart by less than
# 100 us in a second.
MARGIN_NS, DRIFT_NS_PER_S = 20_000, 100_000
READING_NS = 200  # an application reads its two clocks together to within this


class Clocks(Protocol):
    """The clocks of two hosts."""

    def compare(self) -> ClockReading:
        """Compare the clocks now."""
        ...


@dataclass(frozen=True, slots=True)
class ClockCorrection:
    """The time to subtract from every time of a stream, and its uncertainty, in ns."""

    less_ns: int
    uncertainty_ns: int


@dataclass(frozen=True, slots=True)
class _Side:
    """The state of an application before the run, by its own host's clock."""

    engine: EngineProcess
    before: EngineCounters


class TimedRun:
    """The clock comparisons around one run of about `duration_s`. The first takes place in the
    constructor, before the applications start; `end` follows their results."""

    def __init__(self, clocks: Clocks, streams: Sequence[PairEnds], duration_s: float) -> None:
        self._clocks = clocks
        self._streams = list(streams)
        self._first = clocks.compare()
        self._margin_ns = (
            MARGIN_NS + round(DRIFT_NS_PER_S * duration_s) + self._first.uncertainty_ns
        )
        before = _points([end for pair in streams for end in (pair.a, pair.b)])
        self._sides = [
            (_Side(pair.a, before[id(pair.a)]), _Side(pair.b, before[id(pair.b)]))
            for pair in streams
        ]
        for sender, receiver in self._sides:
            receiver.engine.sender_clock = (
                f"{sender.before.ticks}:{self._clock_ns(sender, receiver)}:"
                f"{round(sender.before.tsc_hz)}"
            )

    def end(self) -> list[ClockCorrection]:
        """Compare the clocks again, and return the correction of each stream's times."""
        last = self._clocks.compare()
        after = _points([end for pair in self._streams for end in (pair.a, pair.b)])
        corrections = []
        for sender, receiver in self._sides:
            receiver.engine.sender_clock = None
            ends_at = self._constant_ns(sender, receiver, after, last)
            first, second = self._first.uncertainty_ns, last.uncertainty_ns
            low = min(self._margin_ns - first, ends_at - second)
            high = max(self._margin_ns + first, ends_at + second)
            corrections.append(
                ClockCorrection(round((low + high) / 2), round((high - low) / 2) + 2 * READING_NS)
            )
        return corrections

    def _clock_ns(self, sender: _Side, receiver: _Side) -> int:
        """Return the receiver's clock when the sender's clock was read, minus the margin."""
        ahead_ns = _ahead_ns(sender.engine, receiver.engine, self._first)
        return sender.before.t_ns + ahead_ns - self._margin_ns

    def _constant_ns(
        self,
        sender: _Side,
        receiver: _Side,
        after: Mapping[int, EngineCounters],
        last: ClockReading,
    ) -> float:
        """Return the excess of a time that is measured now: the receiver's true tick when the
        sender's clock was read, minus the tick that the receiver computes for that reading."""
        s, r = after[id(sender.engine)], after[id(receiver.engine)]
        hz = receiver.engine.trial_hz
        elapsed_ticks = (s.ticks - sender.before.ticks) * hz / round(sender.before.tsc_hz)
        sender_clock_ns = self._clock_ns(sender, receiver)
        computed = (sender_clock_ns - receiver.before.t_ns) * hz / 1e9 + elapsed_ticks
        now_ns = s.t_ns + _ahead_ns(sender.engine, receiver.engine, last)
        true_ticks = (r.ticks - receiver.before.ticks) + (now_ns - r.t_ns) * hz / 1e9
        return (true_ticks - computed) * 1e9 / hz


def _ahead_ns(sender: EngineProcess, receiver: EngineProcess, reading: ClockReading) -> int:
    """Return the time by which the receiver's clock is ahead of its sender's, in ns."""
    return (receiver.far - sender.far) * reading.ahead_ns


def _points(engines: Sequence[EngineProcess]) -> dict[int, EngineCounters]:
    """Return readings of both clocks at every application, each once."""
    each = list({id(one): one for one in engines}.values())
    return dict(zip(map(id, each), counters_of(each), strict=True))


def corrected(measured: TimedDelays, correction: ClockCorrection) -> TimedDelays:
    """Return the delays that an application timed as true one-way times. Delay variation consists
    of differences and does not change, except for the base of PDV."""
    less = correction.less_ns
    changes = {
        "intended": _less(measured.intended, less),
        "pdv": measured.pdv.model_copy(update={"base_ns": measured.pdv.base_ns - less}),
        "from_actual": measured.from_actual.shifted(less),
        "from_intended": measured.from_intended.shifted(less),
    }
    return _less(measured, less).model_copy(update=changes)


D = TypeVar("D", bound=Delays)


def _less(figures: D, less_ns: int) -> D:
    names = ("min_ns", "mean_ns", "max_ns")
    changes = {name: max(0, getattr(figures, name) - less_ns) for name in names}
    return figures.model_copy(update=changes)
