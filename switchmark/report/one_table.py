"""The main table of the report, with a line for each contender at each point.

Throughput and latency stand side by side, although each was measured at its own load. Compared
figures are those of the comparison results, so that a page does not give two; others are means.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from switchmark.formatting import number, percent
from switchmark.model.parameter_table import PARAMETERS
from switchmark.model.parameter_type import Kind
from switchmark.model.workload import BITS
from switchmark.report import words
from switchmark.results.answer import PointAnswer, RankedContender
from switchmark.results.rows import SummaryRow
from switchmark.results.transfer_summary import PARTS
from switchmark.statistics.means import Estimate


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table."""

    text: str
    sort: float | None = None
    interval: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A contender at a point, with the figures of each dimension."""

    rows: tuple[SummaryRow, ...]  # one row for each dimension, or the row of a method
    where: tuple[str, ...]  # values of the fields in which points differ
    cells: tuple[Cell, ...]

    @property
    def first(self) -> SummaryRow:
        """The row with the name of the contender."""
        return self.rows[0]

    @property
    def valid(self) -> bool:
        """True if all figures are valid."""
        return all(row.valid for row in self.rows)

    @property
    def marks(self) -> tuple[str, ...]:
        """The trust marks of all its figures."""
        return tuple(dict.fromkeys(mark for row in self.rows for mark in row.marks))

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The limits of the throughput. A round trip is limited by its rate."""
        return self.rows[0].limited_by


@dataclass(frozen=True, slots=True)
class OneTable:
    """Headings and lines."""

    where: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[Line, ...] = field(default=())


def one_table(rows: Sequence[SummaryRow], answers: Sequence[PointAnswer]) -> OneTable:
    """Return the table of all finished rows, baselines last, without columns that no line has a
    figure for."""
    done = sorted((row for row in rows if row.finished), key=lambda row: row.is_baseline)
    typical = {
        (answer.metric.name, ranked.trial.id): ranked
        for answer in answers
        if not answer.testbed  # a line combines all testbeds
        for ranked in answer.ranking
    }
    groups = list(_joined(done))
    varying = _varying(groups, {"workload", *_of_one_dimension(done)})
    cells = [dict(_cells(group, typical)) for group in groups]
    columns = [name for name in _COLUMNS if any(name in one for one in cells)]
    lines = [
        Line(tuple(group), _place(group[0], varying), tuple(one.get(n, Cell("-")) for n in columns))
        for group, one in zip(groups, cells, strict=True)
    ]
    return OneTable(tuple(varying), tuple(columns), tuple(lines))


def _varying(groups: Sequence[Sequence[SummaryRow]], unwanted: Set[str]) -> list[str]:
    """Return the fields in which the contenders' lines differ, without those that are shown in
    another way. Of fields that separate the lines in the same way, such as a method and its rate
    and burst, only the first is returned."""
    firsts = [group[0] for group in groups if not group[0].is_baseline]
    firsts = firsts or [group[0] for group in groups]
    names = [name for name in words.varying_fields(firsts) if name not in unwanted]
    names.sort(key=lambda name: name != "method")
    separated: dict[tuple[int, ...], str] = {}
    for name in names:
        texts = [str(dict(row.point).get(name)) for row in firsts]
        separated.setdefault(tuple(map(texts.index, texts)), name)
    return list(separated.values())


def _place(row: SummaryRow, varying: Sequence[str]) -> tuple[str, ...]:
    """Return a row's values of these fields. A baseline has no function and no scale,
    and a function has no values for the keys that it does not read."""
    point = dict(row.point)
    return tuple(
        "-"
        if (row.is_baseline and PARAMETERS[name].kind is Kind.FUNCTION)
        or not words.is_read(name, point)
        else _without_name(name, words.field(name, point.get(name), row.trial.workload))
        for name in varying
    )


def _without_name(name: str, text: str) -> str:
    """Return a value without the name of its parameter, which the heading of the column has."""
    shown = PARAMETERS[name].name.replace("_", " ")
    return text.removeprefix(f"{shown} ").removesuffix(f" {shown}")


# Column, name in `TransportSummary.costs`, and scale of the CPU time of an application, by whether
# its unit is bit/s.
_CPU_COSTS = {
    True: ("CPU, ms/Gbit", "s_per_gigabit", 1e3),
    False: ("CPU, µs/request", "us_per_request", 1.0),
}
_COLUMNS = (
    "Found",
    "Forwarded, Mpps",
    "Goodput, Gbit/s",
    "Requests/s",
    "Bytes a packet",
    "Retransmitted",
    "Lost",
    "Round trip, µs",
    "99 %, µs",
    "Cores",
    "ns a frame",
    "CPU, ms/Gbit",
    "CPU, µs/request",
    "Trials",
)


def _cells(
    group: Iterable[SummaryRow], typical: dict[tuple[str, str], RankedContender]
) -> Iterator[tuple[str, Cell]]:
    trials = []
    for row in group:
        trials.append(f"{row.finished}{f' ({row.failed} failed)' if row.failed else ''}")
        if row.method is not None:
            found = [words.named(one) for one in row.method.figures]
            yield "Found", Cell("; ".join([row.trial.method, *found]))
        elif row.throughput is not None:
            forwarded = row.throughput.forwarded_pps
            ranked = typical.get(("forwarded", row.trial.id))
            yield (
                "Forwarded, Mpps",
                _figure(forwarded, ranked, 1e6),
            )
            lost = row.throughput.loss_ratio.mean
            yield "Lost", Cell(percent(lost), lost)
            yield from _cost(row)
        elif row.transfer is not None:
            yield from _transfer(row, typical)
            yield from _cores(row)
        elif row.latency is not None:
            median = row.latency.median_ns
            yield "Round trip, µs", _figure(median, typical.get(("rtt-p50", row.trial.id)), 1e3)
            p99 = typical.get(("rtt-p99", row.trial.id))
            yield "99 %, µs", _figure(row.latency.median_p99_ns, p99, 1e3)
    yield "Trials", Cell(" + ".join(trials))


def _transfer(
    row: SummaryRow, typical: dict[tuple[str, str], RankedContender]
) -> Iterator[tuple[str, Cell]]:
    transfer = row.transfer
    assert transfer is not None
    if transfer.unit == BITS:
        ranked = typical.get(("goodput", row.trial.id))
        yield "Goodput, Gbit/s", _figure(transfer.completed_per_s, ranked, 1e9)
    else:
        ranked = typical.get(("transactions", row.trial.id))
        yield "Requests/s", _figure(transfer.completed_per_s, ranked, 1)
        yield "Lost", Cell(percent(transfer.loss_ratio.mean), transfer.loss_ratio.mean)
    if row.transport is not None:
        if (size := row.transport.bytes_per_packet_forth) is not None:
            yield "Bytes a packet", Cell(number(size), size)
        again = row.transport.retransmitted_segments
        yield "Retransmitted", Cell(number(again), again)
        name, cost, scale = _CPU_COSTS[transfer.unit == BITS]
        spent = [row.transport.costs.get(f"{part}_{cost}") for part in PARTS]
        if known := [value * scale for value in spent if value is not None]:
            yield name, Cell(number(sum(known)), sum(known))


def _cores(row: SummaryRow) -> Iterator[tuple[str, Cell]]:
    if row.cpu is not None and row.cpu.total_cores is not None:
        yield "Cores", Cell(number(row.cpu.total_cores), row.cpu.total_cores)


def _cost(row: SummaryRow) -> Iterator[tuple[str, Cell]]:
    yield from _cores(row)
    each = row.cpu.more.get("ns_per_frame") if row.cpu is not None else None
    if each is not None:
        yield "ns a frame", Cell(number(each), each)


def _figure(mean: Estimate, typical: RankedContender | None, scale: float) -> Cell:
    if typical is None:
        interval = "" if mean.low is None else words.from_to(mean, scale)
        return Cell(number(mean.mean / scale), mean.mean, interval)
    interval = ""
    if typical.low is not None and typical.high is not None:
        interval = f"{number(typical.low / scale)}..{number(typical.high / scale)}"
    return Cell(number(typical.typical / scale), typical.typical, interval)


def _joined(rows: Sequence[SummaryRow]) -> Iterator[list[SummaryRow]]:
    """Yield together the throughput and latency rows of one contender at one point, whose loads can
    differ. Rows stay separate if this is ambiguous."""
    plain = [row for row in rows if row.method is None]
    single_dimension = set(_of_one_dimension(plain))
    groups_of: dict[Any, list[SummaryRow]] = defaultdict(list)
    for row in plain:
        fields = tuple(item for item in row.point if item[0] not in single_dimension)
        done = (row.connect_mode, row.port_kind, row.io)
        groups_of[row.contender, done, repr(fields)].append(row)
    for group in groups_of.values():
        if len({row.trial.dimension for row in group}) == len(group):
            yield group
        else:
            yield from ([row] for row in group)
    yield from ([row] for row in rows if row.method is not None)


def _of_one_dimension(rows: Sequence[SummaryRow]) -> Iterator[str]:
    """Yield the fields with one value in all throughput rows and another in all latency rows."""
    if not rows:
        return
    for name, _ in rows[0].point:
        values: dict[Any, set[str]] = defaultdict(set)
        for row in rows:
            values[row.trial.dimension].add(repr(dict(row.point).get(name)))
        if len(values) > 1 and all(len(one) == 1 for one in values.values()):
            yield name
