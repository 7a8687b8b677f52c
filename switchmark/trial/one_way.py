"""One-way times between two hosts: turns the stamps of one clock into another's, within bounds.

Before a timed run the hosts' clocks are compared, and every receiving application is told what the
clock of its sender was at a moment of its own. After the run they are compared again. What the
receiver measured is the true time plus a constant that lies between bounds: those of both
comparisons. Half of their distance is the uncertainty, which stands beside every figure; drift of
the clocks between the comparisons is in it, if its rate does not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from switchmark.engine.event_parts.delays import Delays, TimedDelays
from switchmark.engine.events import EngineCounters
from switchmark.engine.process import EngineProcess, counters_of
from switchmark.remote.contact import ClockReading
from switchmark.trial.verification import PairEnds

# Times come out longer by this beyond the uncertainty, so that none is below 0 where a counter
# cannot say it; it is taken off again. Clocks drift apart by less than 100 us in a second.
MARGIN_NS, DRIFT_NS_PER_S = 20_000, 100_000
READING_NS = 200  # an application reads its two clocks together to within this


class Clocks(Protocol):
    """The clocks of two hosts."""

    def compare(self) -> ClockReading:
        """Compare the clocks now."""
        ...


@dataclass(frozen=True, slots=True)
class ClockCorrection:
    """What is subtracted from every time of a stream, and the uncertainty of it, in ns."""

    less_ns: int
    uncertainty_ns: int


@dataclass(frozen=True, slots=True)
class _Side:
    """The state of an application before the run, by its own host's clock."""

    engine: EngineProcess
    before: EngineCounters


class TimedRun:
    """The clock comparisons around one run of about `duration_s`: it is made before the
    applications start, and tells the receivers; `end` comes after their results."""

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
                f"{sender.before.ticks}:{self._told_ns(sender, receiver)}:"
                f"{round(sender.before.tsc_hz)}"
            )

    def end(self) -> list[ClockCorrection]:
        """Compare the clocks again; returns the correction of each stream's times."""
        last = self._clocks.compare()
        after = _points([end for pair in self._streams for end in (pair.a, pair.b)])
        found = []
        for sender, receiver in self._sides:
            receiver.engine.sender_clock = None
            ends_at = self._constant_ns(sender, receiver, after, last)
            first, second = self._first.uncertainty_ns, last.uncertainty_ns
            low = min(self._margin_ns - first, ends_at - second)
            high = max(self._margin_ns + first, ends_at + second)
            found.append(
                ClockCorrection(round((low + high) / 2), round((high - low) / 2) + 2 * READING_NS)
            )
        return found

    def _told_ns(self, sender: _Side, receiver: _Side) -> int:
        """The receiver's clock when the sender's was read, less the margin."""
        ahead_ns = _ahead_ns(sender.engine, receiver.engine, self._first)
        return sender.before.t_ns + ahead_ns - self._margin_ns

    def _constant_ns(
        self,
        sender: _Side,
        receiver: _Side,
        after: Mapping[int, EngineCounters],
        last: ClockReading,
    ) -> float:
        """The excess of a time that is measured now: the receiver's tick at the moment of reading
        the sender's clock, less the tick that the receiver takes that reading for."""
        s, r = after[id(sender.engine)], after[id(receiver.engine)]
        hz = receiver.engine.trial_hz
        since_told = (s.ticks - sender.before.ticks) * hz / round(sender.before.tsc_hz)
        told_ns = self._told_ns(sender, receiver)
        taken_for = (told_ns - receiver.before.t_ns) * hz / 1e9 + since_told
        now_ns = s.t_ns + _ahead_ns(sender.engine, receiver.engine, last)
        truly = (r.ticks - receiver.before.ticks) + (now_ns - r.t_ns) * hz / 1e9
        return (truly - taken_for) * 1e9 / hz


def _ahead_ns(sender: EngineProcess, receiver: EngineProcess, reading: ClockReading) -> int:
    """By how much the receiver's clock is ahead of its sender's, in ns."""
    return (receiver.far - sender.far) * reading.ahead_ns


def _points(engines: Sequence[EngineProcess]) -> dict[int, EngineCounters]:
    """Readings of both clocks at every application, each once."""
    each = list({id(one): one for one in engines}.values())
    return dict(zip(map(id, each), counters_of(each), strict=True))


def corrected(seen: TimedDelays, correction: ClockCorrection) -> TimedDelays:
    """The delays that an application timed, as true one-way times. Delay variation is made of
    differences and stays, but for the base that PDV is counted from."""
    less = correction.less_ns
    changes = {
        "intended": _less(seen.intended, less),
        "pdv": seen.pdv.model_copy(update={"base_ns": seen.pdv.base_ns - less}),
        "from_actual": seen.from_actual.shifted(less),
        "from_intended": seen.from_intended.shifted(less),
    }
    return _less(seen, less).model_copy(update=changes)


D = TypeVar("D", bound=Delays)


def _less(figures: D, less_ns: int) -> D:
    names = ("min_ns", "mean_ns", "max_ns")
    changes = {name: max(0, getattr(figures, name) - less_ns) for name in names}
    return figures.model_copy(update=changes)
