"""Figures as text: with a unit, three significant digits, and the interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from switchmark.formatting import amount, number
from switchmark.function.registry import unread_keys
from switchmark.model.choices import Dimension
from switchmark.model.functions import FunctionList
from switchmark.model.parameter_table import PARAMETERS
from switchmark.model.trial import Trial
from switchmark.model.workload import FRAMES
from switchmark.record.page_sizes import Point, in_words
from switchmark.results.groups import differing
from switchmark.results.method_summary import FigureSummary
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import RESOLUTION, Estimate
from switchmark.workload.registry import WORKLOADS

_WIDEST = 10  # factor above which an interval is only called wide
_SIZE, _RATE, _WORKLOAD = "packet_size_bytes", "rate_pps", "workload"
_PAGE_SIZE = "page_size_kib"
_ABBREVIATIONS = {"io": "I/O", "nics": "NICs", "vcpus": "vCPUs", "cpus": "CPUs"} | {
    part: part.upper()
    for part in ("cbs", "cir", "cpu", "ip", "numa", "smt", "vid", "vlan", "vnf", "vni")
}
_OF_EVERY_FIGURE = (_SIZE, "dimension")


def left_out(rows: Iterable[SummaryRow]) -> list[str]:
    """Return a line for each reason why the rest of a run skipped contenders."""
    contenders: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.left_out:
            contenders.setdefault(row.left_out, {})[row.contender] = None
    return [f"Left out: {', '.join(names)}: {reason}" for reason, names in contenders.items()]


def from_to(value: Estimate, scale: float) -> str:
    """Return the confidence interval in units of `scale`: `3.45..3.59`; a dash without an
    interval."""
    if value.low is None or value.high is None:
        return "-"
    half = value.relative_half_width
    if half is not None and half < RESOLUTION / 2:
        return "within 0.1 %"
    if half is not None and half > math.log(_WIDEST):
        return f"wider than {_WIDEST}x"
    return f"{number(value.low / scale)}..{number(value.high / scale)}"


def interval(value: Estimate, scale: float, unit: str) -> str:
    """Return `95 % CI 3.45..3.59 Mpps, n = 5`, or the reason why there is no interval."""
    if value.low is None or value.high is None:
        return value.note
    ends = from_to(value, scale)
    kind = "range" if value.is_range else "95 % CI"
    return f"{kind} {ends}{f' {unit}' if ends[0].isdigit() else ''}, n = {value.count}"


def field(name: str, value: Any, workload: str = FRAMES) -> str:
    """Return a field of a trial as text; the unit of a rate depends on the workload."""
    if name == _RATE and value is not None and workload != FRAMES:
        return f"rate {amount(value, WORKLOADS[workload].unit)}"
    return PARAMETERS[name].words(value)


def heading(name: str) -> str:
    """Return the heading of a column with this field of trials: `Connect mode`."""
    parts = PARAMETERS[name].name.split("_")
    text = " ".join(_ABBREVIATIONS.get(part, part) for part in parts)
    return text if parts[0] in _ABBREVIATIONS else text[:1].upper() + text[1:]


def workload_of(fields: Mapping[str, Any]) -> str:
    """Return the workload of a point."""
    return str(fields.get(_WORKLOAD, FRAMES))


def subject(fields: Mapping[str, Any]) -> str:
    """Return the traffic of a point as a word: the frame size, or the application."""
    workload = workload_of(fields)
    return workload if workload != FRAMES else field(_SIZE, fields[_SIZE])


def varying_fields(rows: Iterable[SummaryRow]) -> list[str]:
    """Return the fields of the workload in which these rows differ, like `varying_among`."""
    return varying_among(row.point for row in rows)


def varying_among(points: Iterable[Point]) -> list[str]:
    """Return the fields in which these points differ, without the size, which is always shown, and
    without the dimension, which the figure shows."""
    return [name for name in differing(points) if name not in _OF_EVERY_FIGURE]


def traffic(trial: Trial, unit: str = "") -> str:
    """Return the traffic of a trial for a table: the frame size in bytes, or the application."""
    return f"{trial.packet_size_bytes}{unit}" if trial.workload == FRAMES else trial.workload


def point(fields: Mapping[str, Any], varying: Sequence[str]) -> str:
    """Return the place of a figure: the frame size or the application, and other fields that
    vary."""
    return ", ".join([subject(fields), *fields_of(fields, varying)])


def fields_of(fields: Mapping[str, Any], varying: Iterable[str]) -> list[str]:
    """Return these fields as text, without the workload and without the keys that the functions of
    the trial do not read."""
    workload = workload_of(fields)
    return [
        field(name, fields[name], workload)
        for name in varying
        if name != _WORKLOAD and is_read(name, fields)
    ]


def is_read(name: str, fields: Mapping[str, Any]) -> bool:
    """Return False for the key of a function that the trial does not have."""
    functions = fields.get("function")
    return not functions or PARAMETERS[name].name not in unread_keys(FunctionList(functions))


def names_of(points: Sequence[Point]) -> dict[Point, str]:
    """Return a short name for each point: its contender and its traffic, then the fields in which
    it differs from other points that would have the same name."""
    classes: dict[str, list[Point]] = {}
    for point in points:
        fields = dict(point)
        name = str(fields.get("contender") or fields["switch"])
        size = fields.get(_SIZE)
        has_traffic = size is not None or workload_of(fields) != FRAMES
        classes.setdefault(f"{name}, {subject(fields)}" if has_traffic else name, []).append(point)
    names = [name for name, _ in points[0]] if points else []
    for key in sorted(names, key=lambda key: key != "method"):
        classes = dict(_split(classes, key))
    return {point: name for name, members in classes.items() for point in members}


def _split(classes: Mapping[str, list[Point]], key: str) -> Iterator[tuple[str, list[Point]]]:
    """Yield the classes; a class whose points differ in this field becomes several."""
    for name, members in classes.items():
        values: dict[str, list[Point]] = {}
        for member in members:
            fields = dict(member)
            values.setdefault(_of_table(key, fields.get(key), fields), []).append(member)
        if len(values) == 1:
            yield name, members
        else:
            yield from ((f"{name}, {value}", group) for value, group in values.items())


def _of_table(key: str, value: Any, fields: Mapping[str, Any]) -> str:
    """Return a field of a table of records as text. Texts there are as a campaign writes them."""
    if key == _PAGE_SIZE:
        return in_words(value)
    if isinstance(value, str):
        return f"{key.replace('_', ' ')} {value or 'default'}"
    return field(key, value, workload_of(fields))


def of_dimension(rows: list[SummaryRow], dimension: Dimension) -> list[SummaryRow]:
    """Return the finished rows of plain trials of this dimension."""
    return [
        row
        for row in rows
        if row.trial.dimension is dimension and row.finished and row.method is None
    ]


def of_frames(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Return the finished rows of plain throughput trials with frames as traffic."""
    members = of_dimension(rows, Dimension.THROUGHPUT)
    return [row for row in members if row.transfer is None]


def of_transfers(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Return the finished rows with the throughput of an application."""
    return [row for row in rows if row.finished and row.transfer is not None]


def of_methods(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Return the finished rows of methods of many trials."""
    return [row for row in rows if row.method is not None]


def figure(value: Estimate, unit: str) -> str:
    """Return a method's figure with its unit and interval: `1.23 Mpps (1.22 to 1.24)`."""
    shown = amount(value.mean, unit)
    if value.low is None or value.high is None:
        return shown
    return f"{shown} ({amount(value.low, unit)} to {amount(value.high, unit)})"


def named(figure_found: FigureSummary) -> str:
    """Return a method's figure with its name: `NDR 1.23 Mpps (1.22 to 1.24)`, with a note if some
    repetitions lack it, because figures of different repetitions cannot be compared."""
    part = (
        f" in {figure_found.value.count} of {figure_found.repetitions} repetitions"
        if figure_found.found_in_part
        else ""
    )
    return f"{figure_found.name} {figure(figure_found.value, figure_found.unit)}{part}"
