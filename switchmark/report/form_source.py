"""The source of the standards' forms: the valid records of a run, by device and frame size, and
texts for the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from switchmark.model.parameter_table import KEYS, PARAMETERS
from switchmark.model.rates import BitRate
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.record.method_result import MethodResult, MethodTrial

NO_MEDIUM = "none: the port is virtual"
OUT_OF_BUDGET = "budget"  # a reason of MethodResult.stopped
NOT_GIVEN = "not given (--medium)"


@dataclass(frozen=True, slots=True)
class FormSource:
    """The records for a form."""

    records: Sequence[Record]  # finished and valid
    medium: BitRate | None = None  # the link for the theoretical rate; None: not given

    @classmethod
    def of(cls, records: Sequence[Record], medium: BitRate | None = None) -> FormSource:
        """Return the usable records of a run."""
        usable = [record for record in records if record.status == "finished" and is_valid(record)]
        return cls(usable, medium)

    def theoretical_pps(self, record: Record) -> int | None:
        """Return the frames a second that such links can carry, one link in each direction for each
        stream, because loads are totals; None if no medium was given."""
        if self.medium is None:
            return None
        return self.medium.pps(record.trial.frame_sizes.mean) * record.trial.streams

    def repeated(self, method: str) -> list[RepeatedTrial]:
        """Return the records with a result of this method, by device and frame size."""
        return repeated(record for record, _ in of_method(self.records, method))


def is_valid(record: Record) -> bool:
    """Return True if the record's figures may be used."""
    return record.verdict is not None and record.verdict.valid


@dataclass(frozen=True, slots=True)
class RepeatedTrial:
    """The repetitions of one trial."""

    device: str  # the switch, with parameters that distinguish trials
    size: float  # frame size in bytes with FCS; the mean of a mix
    streams: str  # pairs, and "both ways" if bidirectional
    records: tuple[Record, ...]

    @property
    def where(self) -> tuple[str, str, str]:
        """The first cells of its lines."""
        return self.device, size_text(self.records[0]), self.streams

    @property
    def results(self) -> list[MethodResult]:
        """The results of a method in each repetition."""
        return [one.method for one in self.records if one.method is not None]


def repeated(records: Iterable[Record], unnamed: Collection[str] = ()) -> list[RepeatedTrial]:
    """Return the records by device and frame size, repetitions together. The names of devices do
    not have the fields `unnamed`, which have columns."""
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda r: (r.trial.called, r.trial.frame_sizes.mean)):
        groups.setdefault(record.trial.repeated(0).id, []).append(record)
    alike: dict[tuple[str, float, str], list[Trial]] = defaultdict(list)
    for group in groups.values():
        alike[_called(group[0])].append(group[0].trial)
    return [
        RepeatedTrial(
            _distinct_name(group[0].trial, alike[called], unnamed), *called[1:], tuple(group)
        )
        for group in groups.values()
        for called in (_called(group[0]),)
    ]


def _called(record: Record) -> tuple[str, float, str]:
    ways = ", both ways" if record.trial.bidirectional else ""
    return record.trial.called, record.trial.frame_sizes.mean, f"{record.trial.pairs}{ways}"


def _distinct_name(trial: Trial, alike: Sequence[Trial], unnamed: Collection[str]) -> str:
    """Return the name of a trial's device, with the parameters in which trials of that name
    differ."""
    names = [
        parameter.field
        for parameter in KEYS
        if parameter.field not in unnamed
        and len({str(getattr(other, parameter.field)) for other in alike}) > 1
    ]
    parts = [PARAMETERS[name].words(getattr(trial, name)) for name in names]
    return f"{trial.called} ({', '.join(parts)})" if parts else trial.called


def size_text(record: Record) -> str:
    """Return the frame size; for a mix, its mean and the mix."""
    mean = record.trial.frame_sizes.mean
    return (
        f"{mean:g} (mean of {record.trial.packet_mix})" if record.trial.packet_mix else f"{mean:g}"
    )


def of_method(records: Iterable[Record], method: str) -> list[tuple[Record, MethodResult]]:
    """Return the records with a result of this method, each with the result."""
    return [(o, o.method) for o in records if o.method is not None and o.method.method == method]


def highest_load_pps(result: MethodResult) -> float:
    """Return the highest offered load in frames/s; 0 without an offered load."""
    return max((trial.offered_pps for trial in result.trials), default=0.0)


def loss_share(trial: MethodTrial) -> float:
    """Return lost frames as a share of offered frames."""
    return trial.lost_frames / trial.offered_frames if trial.offered_frames else 0.0


def share_of(found: int, tried: int) -> str:
    """Return the number of repetitions behind a mean, which excludes searches without a figure."""
    if found == tried:
        return str(tried)
    return f"{found} of {tried} searches found a figure"


def budget_note(trials: Iterable[RepeatedTrial], method: str) -> list[str]:
    """Return a sentence on the runs of a method that their time budget ended; empty without any."""
    stopped = [result.stopped for trial in trials for result in trial.results]
    count = stopped.count(OUT_OF_BUDGET)
    if not count:
        return []
    return [
        "",
        f"The time budget ended {count} of {len(stopped)} runs of {method} before they were "
        "complete: their figures are those known by then (`method_budget` sets the budget).",
    ]


def medium_rate(record: Record, could_pps: int | None) -> str:
    """Return the rate of the medium; only a physical port has a medium."""
    if could_pps is not None:
        return f"{could_pps:,}"
    return NOT_GIVEN if record.trial.nics else NO_MEDIUM


def table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a Markdown table; empty without rows."""
    lines = (heading, ["---"] * len(heading), *rows) if rows else ()
    return [f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |" for cells in lines]
