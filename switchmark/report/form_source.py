"""What the forms of standards are filled in from: the valid records of a run, by device and size of
frames, and the words of their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from switchmark.model.rates import BitRate
from switchmark.results.record import Record
from switchmark.results.record.method_result import MethodResult, MethodTrial

NO_MEDIUM = "none: the port is virtual"
NOT_SAID = "not said (--medium)"


@dataclass(frozen=True, slots=True)
class FormSource:
    """What a form is filled in from."""

    records: Sequence[Record]  # finished, and valid
    medium: BitRate | None = None  # the link that is compared with; None: nobody said one

    @classmethod
    def of(cls, records: Sequence[Record], medium: BitRate | None = None) -> FormSource:
        """Without the records that are not usable."""
        usable = [one for one in records if one.status == "finished" and is_valid(one)]
        return cls(usable, medium)

    def theoretical_pps(self, one: Record) -> int | None:
        """What such links could carry of its frames, one link each way for each of its streams,
        since loads are totals; None where nobody said a medium."""
        if self.medium is None:
            return None
        return self.medium.pps(one.trial.packet_size_bytes) * one.trial.streams


def is_valid(record: Record) -> bool:
    """Whether its figures may be used."""
    return record.verdict is not None and record.verdict.valid


@dataclass(frozen=True, slots=True)
class Repeated:
    """The repetitions of one trial."""

    device: str  # the switch; where several trials would be called alike, all that was asked
    size: int  # of frames, bytes with FCS
    streams: str  # pairs, and whether both ways
    records: tuple[Record, ...]


def repeated(records: Iterable[Record]) -> list[Repeated]:
    """By device and size of frames."""
    groups: dict[str, list[Record]] = {}
    for one in sorted(records, key=lambda r: (r.trial.switch, r.trial.packet_size_bytes)):
        groups.setdefault(one.trial.repeated(0).id, []).append(one)
    plain = [_called(group[0]) for group in groups.values()]
    return [
        Repeated(told[0] if plain.count(told) == 1 else group[0].notation, *told[1:], tuple(group))
        for told, group in zip(plain, groups.values(), strict=True)
    ]


def _called(one: Record) -> tuple[str, int, str]:
    ways = ", both ways" if one.trial.bidirectional else ""
    return one.trial.switch, one.trial.packet_size_bytes, f"{one.trial.pairs}{ways}"


def of_method(records: Iterable[Record], method: str) -> list[tuple[Record, MethodResult]]:
    """The records that hold the result of this method, and the result."""
    return [(o, o.method) for o in records if o.method is not None and o.method.method == method]


def highest_load_pps(found: MethodResult) -> float:
    """The highest that was offered; 0 where nothing was."""
    return max((trial.offered_pps for trial in found.trials), default=0.0)


def loss_share(trial: MethodTrial) -> float:
    """Of the frames that were offered."""
    return trial.lost_frames / trial.offered_frames if trial.offered_frames else 0.0


def share_of(found: int, tried: int) -> str:
    """How many a mean is of, with those that found nothing, which are not in it."""
    return str(tried) if found == tried else f"{found} of {tried}; the others found none"


def medium_rate(record: Record, could_pps: int | None) -> str:
    """What the medium could carry; only a port with a medium has one of its own."""
    if could_pps is not None:
        return f"{could_pps:,}"
    return NOT_SAID if record.trial.nics else NO_MEDIUM


def table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Nothing where there are no rows."""
    return list(_lines(heading, rows)) if rows else []


def _lines(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    for cells in (heading, ["---"] * len(heading), *rows):
        yield f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
