"""The source of the standards' forms: the valid records of a run, by device and frame size, and the
words of their tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from switchmark.model.parameter_table import KEYS, PARAMETERS
from switchmark.model.rates import BitRate
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.record.method_result import MethodResult, MethodTrial

NO_MEDIUM = "none: the port is virtual"
OUT_OF_BUDGET = "budget"  # why a method ended (MethodResult.stopped)
NOT_SAID = "not said (--medium)"


@dataclass(frozen=True, slots=True)
class FormSource:
    """The records that a form is filled in from."""

    records: Sequence[Record]  # finished, and valid
    medium: BitRate | None = None  # the link that is compared with; None: nobody said one

    @classmethod
    def of(cls, records: Sequence[Record], medium: BitRate | None = None) -> FormSource:
        """Read them from a run, without the records that are not usable."""
        usable = [one for one in records if one.status == "finished" and is_valid(one)]
        return cls(usable, medium)

    def theoretical_pps(self, one: Record) -> int | None:
        """The frames a second that such links could carry, one link each way for each stream, since
        loads are totals; None where no medium was given."""
        if self.medium is None:
            return None
        return self.medium.pps(one.trial.frame_sizes.mean) * one.trial.streams

    def repeated(self, method: str) -> list[RepeatedTrial]:
        """The records that hold a result of this method, by device and frame size."""
        return repeated(one for one, _ in of_method(self.records, method))


def is_valid(record: Record) -> bool:
    """Whether the record's figures may be used."""
    return record.verdict is not None and record.verdict.valid


@dataclass(frozen=True, slots=True)
class RepeatedTrial:
    """The repetitions of one trial."""

    device: str  # the switch; where several trials would be called alike, all that was asked
    size: float  # of frames, bytes with FCS; the mean of a mix
    streams: str  # pairs, and whether both ways
    records: tuple[Record, ...]

    @property
    def where(self) -> tuple[str, str, str]:
        """The first cells of its lines."""
        return self.device, size_text(self.records[0]), self.streams

    @property
    def results(self) -> list[MethodResult]:
        """What a method has found in each of them."""
        return [one.method for one in self.records if one.method is not None]


def repeated(records: Iterable[Record]) -> list[RepeatedTrial]:
    """The records by device and frame size, repetitions together."""
    groups: dict[str, list[Record]] = {}
    for one in sorted(records, key=lambda r: (r.trial.called, r.trial.frame_sizes.mean)):
        groups.setdefault(one.trial.repeated(0).id, []).append(one)
    alike: dict[tuple[str, float, str], list[Trial]] = defaultdict(list)
    for group in groups.values():
        alike[_called(group[0])].append(group[0].trial)
    return [
        RepeatedTrial(_told_apart(group[0].trial, alike[called]), *called[1:], tuple(group))
        for group in groups.values()
        for called in (_called(group[0]),)
    ]


def _called(one: Record) -> tuple[str, float, str]:
    ways = ", both ways" if one.trial.bidirectional else ""
    return one.trial.called, one.trial.frame_sizes.mean, f"{one.trial.pairs}{ways}"


def _told_apart(trial: Trial, alike: Sequence[Trial]) -> str:
    """The name of a trial's device, with what tells it from the others of that name."""
    names = [
        one.field for one in KEYS if len({str(getattr(other, one.field)) for other in alike}) > 1
    ]
    parts = [PARAMETERS[name].words(getattr(trial, name)) for name in names]
    return f"{trial.called} ({', '.join(parts)})" if parts else trial.called


def size_text(one: Record) -> str:
    """The frame size; of a mix its mean, said to be one."""
    mean = one.trial.frame_sizes.mean
    return f"{mean:g} (mean of {one.trial.packet_mix})" if one.trial.packet_mix else f"{mean:g}"


def of_method(records: Iterable[Record], method: str) -> list[tuple[Record, MethodResult]]:
    """The records that hold a result of this method, with the result."""
    return [(o, o.method) for o in records if o.method is not None and o.method.method == method]


def highest_load_pps(found: MethodResult) -> float:
    """The highest offered load in frames/s; 0 where nothing was offered."""
    return max((trial.offered_pps for trial in found.trials), default=0.0)


def loss_share(trial: MethodTrial) -> float:
    """Lost frames as a share of those offered."""
    return trial.lost_frames / trial.offered_frames if trial.offered_frames else 0.0


def share_of(found: int, tried: int) -> str:
    """The number of repetitions behind a mean; searches without a figure are not part of it."""
    if found == tried:
        return str(tried)
    return f"{found} of {tried} searches found a figure"


def budget_note(each: Iterable[RepeatedTrial], method: str) -> list[str]:
    """A sentence on the runs of a method that ended because their budget was spent; else empty."""
    stopped = [found.stopped for one in each for found in one.results]
    count = stopped.count(OUT_OF_BUDGET)
    if not count:
        return []
    return [
        "",
        f"The time budget ended {count} of {len(stopped)} runs of {method} before they were "
        "complete: their figures are those known by then (`method_budget` sets the budget).",
    ]


def medium_rate(record: Record, could_pps: int | None) -> str:
    """The rate of the medium; only a port with a medium has one of its own."""
    if could_pps is not None:
        return f"{could_pps:,}"
    return NOT_SAID if record.trial.nics else NO_MEDIUM


def table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A Markdown table; empty without rows."""
    lines = (heading, ["---"] * len(heading), *rows) if rows else ()
    return [f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |" for cells in lines]
