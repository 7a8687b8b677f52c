"""The tables of cost and of latency tails, as text cells: `show` and the report print the same.

Columns in which no row has a figure are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.report import words
from switchmark.results.latency_summary import LatencySummary
from switchmark.results.rows import CpuSummary, SummaryRow
from switchmark.statistics.histogram import PERCENTILES
from switchmark.statistics.order_statistics import Bounds


@dataclass(frozen=True, slots=True)
class TextTable:
    """Headings, and for each row its cells."""

    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def _more(name: str, show: Callable[[float], str] = words.number) -> Callable[[CpuSummary], str]:
    def cell(cpu: CpuSummary) -> str:
        value = cpu.more.get(name)
        return "-" if value is None else show(value)

    return cell


def _cores(value: float | None) -> str:
    return "-" if value is None else words.number(value)


_CPU_COLUMNS: dict[str, Callable[[CpuSummary], str]] = {
    "switch": lambda cpu: _cores(cpu.switch_cores),
    "applications": lambda cpu: _cores(cpu.applications_cores),
    "in system calls": _more("applications_system_cores"),
    "softirq": lambda cpu: _cores(cpu.softirq_cores),
    "in ksoftirqd": _more("ksoftirqd_cores_used"),
    "stolen": _more("stolen_cores"),
    "in all": lambda cpu: _cores(cpu.total_cores),
    "ns a frame": _more("ns_per_frame"),
    "beyond wire": _more("beyond_wire_ns_per_frame"),
    "Mpps a core": _more("mpps_per_core"),
    "useful cycles": _more("switch_busy_share", words.percent),
    "useful cycles a frame": _more("switch_busy_cycles_per_frame"),
    "hw cycles a frame": _more("cycles_per_frame"),
    "instr a cycle": _more("instructions_per_cycle"),
    "cache missed": _more("cache_miss_ratio", words.percent),
    "dTLB misses a frame": _more("dtlb_misses_per_frame"),
    "µJ a frame": _more("microjoules_per_frame"),
}


def cpu_table(rows: Sequence[SummaryRow]) -> TextTable:
    """Cores used and cost of each frame, a line a row (rows without CPU figures: dashes)."""
    lines = [
        ["-" if row.cpu is None else show(row.cpu) for show in _CPU_COLUMNS.values()]
        for row in rows
    ]
    kept = [i for i in range(len(_CPU_COLUMNS)) if any(line[i] != "-" for line in lines)]
    names = list(_CPU_COLUMNS)
    return TextTable(
        tuple(names[i] for i in kept), tuple(tuple(line[i] for i in kept) for line in lines)
    )


def tails_table(rows: Sequence[SummaryRow]) -> TextTable:
    """Two lines a row, in µs: from the real send time, then from the time due."""
    lines = []
    for row in rows:
        assert row.latency is not None, "only rows with a latency"
        lines += [_sent(row.latency), _due(row.latency)]
    columns = ("timed from", "mean", "st. dev.", *(f"{name} %" for name in PERCENTILES))
    return TextTable(columns, tuple(lines))


def _sent(seen: LatencySummary) -> tuple[str, ...]:
    return (
        *("sent", _us(seen.mean_ns.mean), _us(seen.stdev_ns)),
        *_percentiles(seen.percentiles_ns, seen.intervals_ns),
    )


def _due(seen: LatencySummary) -> tuple[str, ...]:
    return (
        *("due", _us(seen.intended_mean_ns), _us(seen.intended_stdev_ns)),
        *_percentiles(seen.intended_percentiles_ns, seen.intended_intervals_ns),
    )


def _percentiles(values_ns: dict[str, float], intervals: dict[str, Bounds]) -> list[str]:
    return [_us(values_ns.get(name)) + _interval(intervals.get(name)) for name in PERCENTILES]


def _interval(bounds: Bounds | None) -> str:
    """The 95 % interval; open where there are too few samples to bound it."""
    if bounds is None:
        return ""
    low, high = ("?" if bound is None else _us(bound) for bound in bounds)
    return f" ({low} to {high})"


def _us(value_ns: float | None) -> str:
    return "-" if value_ns is None else words.number(value_ns / 1e3)
