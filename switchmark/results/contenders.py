"""Names the contenders of a run, and marks rows whose contenders do different work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from switchmark.model.parameter_table import CONTENDER, PARAMETERS, means_if_asked
from switchmark.model.parameter_type import Parameter
from switchmark.record.page_sizes import is_compared, known_sizes
from switchmark.results.granted_summary import GrantedSummary, mixed
from switchmark.results.rows import SummaryRow


def with_mixed_modes(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Mark rows of points at which switches forward by different rules."""
    modes: dict[Any, set[str]] = defaultdict(set)
    points = [row.point for row in rows]
    for row, point in zip(rows, points, strict=True):
        if row.finished and not row.is_baseline and row.connect_mode:
            modes[point].add(row.connect_mode)
    mark = "mixed-connect-modes"
    return [
        replace(row, marks=(*row.marks, mark))
        if len(modes[point]) > 1 and not row.is_baseline and mark not in row.marks
        else row
        for row, point in zip(rows, points, strict=True)
    ]


def with_mixed_grants(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Mark rows of points at which programs were granted different resources."""
    granted: dict[Any, list[GrantedSummary]] = defaultdict(list)
    points = [row.point for row in rows]
    for row, point in zip(rows, points, strict=True):
        if row.finished and not row.is_baseline:
            granted[point].append(row.granted)
    marks = {point: mixed(summaries) for point, summaries in granted.items()}
    return [
        replace(row, marks=tuple(dict.fromkeys((*row.marks, *marks[point]))))
        if row.finished and not row.is_baseline and marks[point]
        else row
        for row, point in zip(rows, points, strict=True)
    ]


def with_page_sizes_apart(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Give rows of different page sizes different points, unless page sizes are compared."""
    sizes: dict[Any, list[int | None]] = defaultdict(list)
    points = [row.point for row in rows]
    for row, point in zip(rows, points, strict=True):
        if not is_compared(row.trial.compared):
            sizes[point].append(row.page_size_kib)
    several = {point for point, row_sizes in sizes.items() if len(known_sizes(row_sizes)) > 1}
    return [
        replace(row, has_page_size_apart=True) if point in several else row
        for row, point in zip(rows, points, strict=True)
    ]


def in_order_of(definition: Mapping[str, Any]) -> Callable[[str], tuple[int, str]]:
    """Return a sort key for names of contenders: in the order of a campaign's definition, then
    other names alphabetically."""
    sweeps = definition.get("sweeps", ())
    written = [name for sweep in sweeps for name in sweep.get("contender", ())]
    return lambda name: (written.index(name) if name in written else len(written), name)


def with_contenders(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Name rows so that two different configurations have different names. The name is that of the
    campaign, otherwise that of the switch, with the parameters that vary within it."""
    values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for parameter in _distinguishing(row) if row.finished else ():
            values[row.trial.called][parameter.field].add(_means(row, parameter))
    return [replace(row, contender=_contender(row, values[row.trial.called])) for row in rows]


def _distinguishing(row: SummaryRow) -> list[Parameter]:
    """Return the parameters in which contenders with equal names can differ."""
    return [parameter for parameter in CONTENDER if parameter.field != "contender"] + [
        *means_if_asked(row.trial)
    ]


def _contender(row: SummaryRow, values: dict[str, set[str]]) -> str:
    varying = [
        parameter.field for parameter in _distinguishing(row) if len(values[parameter.field]) > 1
    ]
    if "io" in varying and len(values["port_kind"]) == len(values["io"]):
        varying = [name for name in varying if name != "io"]  # the port kind determines the I/O
    is_named = bool(row.trial.contender)
    if row.trial.switch_options and "switch_options" not in varying and not is_named:
        varying.append("switch_options")  # options that the user set are always shown
    parts = [_means(row, PARAMETERS[name]) for name in varying]
    return f"{row.trial.called} ({', '.join(parts)})" if parts else row.trial.called


def _means(row: SummaryRow, parameter: Parameter) -> str:
    if parameter.resolved:
        return str(getattr(row, parameter.field) or "?")
    return parameter.words(getattr(row.trial, parameter.field))
