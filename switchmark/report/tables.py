"""The tables of cost, quality, the remote host and latency tails, as text cells for `show` and for
the report. Columns without any figure are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Any

from switchmark.formatting import number, percent
from switchmark.function.registry import FUNCTIONS
from switchmark.model.parameter_table import BY_NAME
from switchmark.model.parameter_type import counted
from switchmark.model.trial import Trial
from switchmark.record.page_sizes import Point
from switchmark.report import words
from switchmark.results.between_hosts import BetweenHostsSummary, QualitySummary
from switchmark.results.function_load import FunctionLoad
from switchmark.results.function_share import scale_of
from switchmark.results.groups import differing
from switchmark.results.latency_summary import LatencySummary
from switchmark.results.rows import SummaryRow
from switchmark.statistics.histogram import PERCENTILES
from switchmark.statistics.order_statistics import Bounds

_QUALITY_TITLES = {  # the first words of a column, and its part of the title
    ("IPDV", "PDV"): "delay variation (IPDV RFC 3393, PDV RFC 5481)",
    ("reordered",): "order (RFC 4737)",
    ("Jain",): "fairness between pairs",
    ("sender", "receiver", "client", "server"): "CPU time of a frame in the applications",
}
BETWEEN_HOSTS_TITLE = (
    "The remote host: one-way times to it in µs with the uncertainty of the clocks, the lead of "
    "its clock, and cores used there"
)
FUNCTION_TITLE = (
    "Tables of network functions: medians of all trials with the same table (memory: growth while "
    "the table was loaded, in the kernel that of the whole machine; process: all memory of the "
    "switch with its hugepages; a policer's error is relative to its CIR)"
)
_Cell = Callable[[Any], str | None]  # None: there is no figure
_Lines = tuple[list[str], dict[int, list[str]]]


@dataclass(frozen=True, slots=True)
class TextTable:
    """Headings, and the cells of each row."""

    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def cpu_table(rows: Sequence[SummaryRow]) -> TextTable:
    """Return cores used and cost of each frame, a line for each row; each row needs CPU figures."""
    headings, lines = _with_figures(_CPU, [row.cpu for row in rows])
    return TextTable(tuple(headings), tuple(map(tuple, lines.values())))


def quality_table(summaries: Sequence[QualitySummary]) -> _Lines:
    """Return order, delay variation, fairness and cost: the headings, and the cells of each row
    with any figure, by its index."""
    return _with_figures(_QUALITY, summaries)


def quality_title(headings: Sequence[str]) -> str:
    """Return the title of a `quality_table` with these headings."""
    parts = [part for first, part in _QUALITY_TITLES.items()
             if any(heading.startswith(first) for heading in headings)]  # fmt: skip
    title = ", ".join(parts)
    return title[:1].upper() + title[1:]


def between_hosts_table(summaries: Sequence[BetweenHostsSummary]) -> _Lines:
    """Return the same for the remote host."""
    return _with_figures(_BETWEEN_HOSTS, summaries)


def function_table(rows: Sequence[SummaryRow]) -> TextTable:
    """Load time and memory of the tables of functions, and errors of policers: a line for each
    contender and table. No line for a function that has neither a table nor a judged policer."""
    groups: dict[tuple[str, Point], list[FunctionLoad]] = {}
    scales = {}
    for row in rows:
        loads = row.function_loads
        if loads and (_policings(loads) is not None or scale_of(row.trial) is not None):
            point = _function_point(row.trial)
            groups.setdefault((row.contender, point), []).extend(loads)
            scales[point] = scale_of(row.trial)
    varying = set(differing(point for _, point in groups)) - {"function"}
    cells = []
    for (contender, point), joined in groups.items():
        values = dict(point)
        scale = scales[point]
        named = [] if scale is None else [counted(scale[1].removesuffix("s"))(scale[0])]
        more = [words.field(name, value) for name, value in point
                if name in varying and (scale is None or value != scale[0])]  # fmt: skip
        first = (contender, str(values["function"]), ", ".join([*named, *more]) or "-")
        cells.append((*first, *(show(joined) or "-" for show in _FUNCTION.values())))
    return TextTable(("switch", "function", "table", *_FUNCTION), tuple(cells))


def _function_point(trial: Trial) -> Point:
    """The function and the values of its keys."""
    keys = [BY_NAME[key].field for name in trial.function.names if name in FUNCTIONS
            for key in FUNCTIONS[name].keys]  # fmt: skip
    fields = ("function", "ip_version", *dict.fromkeys(keys))
    return tuple((field, getattr(trial, field)) for field in fields)


def _policings(loads: Sequence[FunctionLoad]) -> str | None:
    """The largest error of a policer, and how many trials could not judge it."""
    errors = [load.policing_error for load in loads if load.policing_error is not None]
    unjudged = sum(load.policing_unjudged is not None for load in loads)
    texts = [f"{max(errors, key=abs):+.2%}"] if errors else []
    return ", ".join([*texts, *([f"{unjudged} not judged"] if unjudged else [])]) or None


def _memory(loads: Sequence[FunctionLoad]) -> str | None:
    sizes_kib = [load.table_memory_kib for load in loads if load.table_memory_kib is not None]
    if not sizes_kib:
        return None
    return number(median(sizes_kib) / 1024) + " (kernel)" * loads[0].memory_is_kernel


def _process_memory(loads: Sequence[FunctionLoad]) -> str | None:
    sizes_kib = [load.process_kib for load in loads if load.process_kib is not None]
    return number(median(sizes_kib) / 1024) if sizes_kib else None


def _entries_per_s(loads: Sequence[FunctionLoad]) -> str | None:
    """The median rate; a table without native entries, or one that is compiled while the switch
    starts, has none."""
    rates = [load.entries / load.load_time_s for load in loads
             if load.entries and load.load_time_s > 0 and not load.loads_at_start]  # fmt: skip
    return number(median(rates)) if rates else None


_FUNCTION: dict[str, Callable[[Sequence[FunctionLoad]], str | None]] = {
    "native entries": lambda loads: f"{median(load.entries for load in loads):,.0f}",
    "load s": lambda loads: number(median(load.load_time_s for load in loads)),
    "entries/s": _entries_per_s,
    "memory MiB": _memory,
    "process MiB": _process_memory,
    "policer": _policings,
    "trials": lambda loads: str(len(loads)),
}


def _with_figures(columns: Mapping[str, _Cell], summaries: Sequence[object]) -> _Lines:
    cells = [{name: show(summary) for name, show in columns.items()} for summary in summaries]
    names = [name for name in columns if any(line[name] is not None for line in cells)]
    return names, {
        index: [line[name] or "-" for name in names]
        for index, line in enumerate(cells)
        if any(cell is not None for cell in line.values())
    }


def _figure(name: str, show: Callable[[float], str | None] = number) -> _Cell:
    """Return the cell for the attribute of this name."""
    return _shown(attrgetter(name), show)


def _more(name: str, show: Callable[[float], str] = number) -> _Cell:
    """Return the cell for a further figure of a CPU summary."""
    return _shown(lambda cpu: cpu.more.get(name), show)


def _shown(value: Callable[[Any], float | None], show: Callable[[float], str | None]) -> _Cell:
    def cell(summary: Any) -> str | None:
        figure = value(summary)
        return None if figure is None else show(figure)

    return cell


def _micro(value_ns: float) -> str:
    return number(value_ns / 1e3)


def _clock(ahead_ns: float | None, uncertainty_ns: float | None) -> str | None:
    """Return a clock's offset, rounded to its uncertainty."""
    if ahead_ns is None or uncertainty_ns is None:
        return None
    return f"{ahead_ns / 1e9:+.6f} s ± {_micro(uncertainty_ns)} µs"


_CPU: dict[str, _Cell] = {
    "switch cores": _figure("switch_cores"),
    "applications": _figure("applications_cores"),
    "in system calls": _more("applications_system_cores"),
    "softirq": _figure("softirq_cores"),
    "in ksoftirqd": _more("ksoftirqd_cores_used"),
    "stolen": _more("stolen_cores"),
    "all cores": _figure("total_cores"),
    "ns a frame": _more("ns_per_frame"),
    "beyond baseline": _more("beyond_wire_ns_per_frame"),
    "Mpps a core": _more("mpps_per_core"),
    "useful cycles": _more("switch_busy_share", percent),
    "useful cycles a frame": _more("switch_busy_cycles_per_frame"),
    "hw cycles a frame": _more("cycles_per_frame"),
    "instr a cycle": _more("instructions_per_cycle"),
    "cache missed": _more("cache_miss_ratio", percent),
    "dTLB misses a frame": _more("dtlb_misses_per_frame"),
    "µJ a frame": _more("microjoules_per_frame"),
}
# Columns about the order are shown only if frames were reordered.
_QUALITY: dict[str, _Cell] = {
    "IPDV p50 µs": _figure("ipdv_p50_ns", _micro),
    "IPDV p99": _figure("ipdv_p99_ns", _micro),
    "PDV p50": _figure("pdv_p50_ns", _micro),
    "PDV p99": _figure("pdv_p99_ns", _micro),
    "reordered": _figure("reordered_ratio", lambda ratio: percent(ratio) if ratio else None),
    "by up to, frames": _figure("max_reorder_extent", lambda most: f"{most:.0f}" if most else None),
    "Jain": _figure("jain_fairness", "{:.4f}".format),
    "sender ns a frame": _figure("sender_ns_per_frame"),
    "receiver ns": _figure("receiver_ns_per_frame"),
    "client ns": _figure("client_ns_per_frame"),
    "server ns": _figure("server_ns_per_frame"),
}
_BETWEEN_HOSTS: dict[str, _Cell] = {
    "one-way min µs": _figure("one_way_min_ns", _micro),
    "p50": _figure("one_way_p50_ns", _micro),
    "p99": _figure("one_way_p99_ns", _micro),
    "all ±": _figure("one_way_uncertainty_ns", _micro),
    "clock ahead by": lambda one: _clock(one.clock_ahead_ns, one.clock_uncertainty_ns),
    "afterwards": lambda one: _clock(one.clock_ahead_after_ns, one.clock_uncertainty_after_ns),
    "switch cores": _figure("far_switch_cores_used"),
    "applications": _figure("far_applications_cores_used"),
    "softirq": _figure("far_softirq_cores_used"),
    "all cores": _figure("far_total_cores_used"),
    "ns a frame": _figure("far_ns_per_frame"),
}


def tails_table(rows: Sequence[SummaryRow]) -> TextTable:
    """Return two lines for each row, in µs: from the actual send time, and from the due time."""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        assert row.latency is not None, "only rows with a latency"
        lines += _tails(row.latency)
    columns = ("timed from", "mean", "st. dev.", *(f"{name} %" for name in PERCENTILES))
    return TextTable(columns, tuple(lines))


def _tails(latency: LatencySummary) -> Iterator[tuple[str, ...]]:
    for timed_from, mean_ns, stdev_ns, percentiles_ns, intervals in (
        ("sent", latency.all_mean_ns, latency.stdev_ns, latency.percentiles_ns,
         latency.intervals_ns),
        ("due", latency.intended_mean_ns, latency.intended_stdev_ns,
         latency.intended_percentiles_ns, latency.intended_intervals_ns),
    ):  # fmt: skip
        cells = [
            _us(percentiles_ns.get(name)) + _interval(intervals.get(name)) for name in PERCENTILES
        ]
        yield (timed_from, _us(mean_ns), _us(stdev_ns), *cells)


def _interval(bounds: Bounds | None) -> str:
    """Return the 95 % interval; open if there are too few samples to bound it."""
    if bounds is None:
        return ""
    low, high = ("?" if bound is None else _us(bound) for bound in bounds)
    return f" ({low} to {high})"


def _us(value_ns: float | None) -> str:
    return "-" if value_ns is None else _micro(value_ns)
