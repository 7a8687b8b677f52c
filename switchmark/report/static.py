"""Static plots for papers and slides: the same figures as the report's, as SVG and PNG.

Drawn with matplotlib from the summary rows; text stays text in the SVG.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.model.choices import Dimension
from switchmark.report import pen, words
from switchmark.report.axes import XAxis, x_axis
from switchmark.report.drawing_files import FORMATS, write_drawing
from switchmark.report.drawn_rows import facets
from switchmark.report.figures import looks
from switchmark.report.pictures import paper_pictures
from switchmark.report.throughput import axis_end
from switchmark.results.rows import SummaryRow
from switchmark.results.store import open_run
from switchmark.results.summary import summary
from switchmark.results.times import times_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BASELINE = pen.MUTED
_LONGEST_NAME = 120  # of a file, without its ending
_WIRE_LINES = {"|": ":", "x": "-.", "_": "--"}  # of bare wires, by marker


def write_plots(run_directory: Path, folder: Path) -> list[Path]:
    """Write throughput and latency plots of a run, and those that papers draw, into a folder;
    returns the files."""
    pen.take_up()
    folder.mkdir(parents=True, exist_ok=True)
    rows = summary(run_directory)
    run = open_run(run_directory)
    style = _styles(rows)
    written: list[Path] = []
    throughput = words.of_dimension(rows, Dimension.THROUGHPUT)
    x = x_axis(throughput)
    for title, members in facets(throughput, x):
        legend = 0.2 * math.ceil(len({row.contender for row in members}) / 3)
        height = 3.2 + legend if x else 1.2 + 0.34 * len(members)
        name = _file_name("throughput", title)
        written += _save(folder / name, height, title, members, x, style)
    for title, members in facets(words.of_dimension(rows, Dimension.LATENCY), None):
        height = 1.2 + 0.4 * len(members)
        written += _save(folder / _file_name("latency", title), height, title, members, None, style)
    published, times = run.info.parsed_definition.published, partial(times_of, run)
    made = paper_pictures(rows, run.records(), published, looks(rows), times)
    for heading, drawing in made.drawings:
        base = _free(folder / _file_name(heading, drawing.title), written)
        written += write_drawing(drawing, base, heading)
    return written


def _free(base: Path, written: Sequence[Path]) -> Path:
    """The name, with a number where another plot has it."""
    taken = {path.with_suffix("") for path in written}
    numbered = (base.with_name(f"{base.name}-{number}") for number in count(2))
    return base if base not in taken else next(one for one in numbered if one not in taken)


def _save(
    base: Path,
    height_in: float,
    title: str,
    rows: Sequence[SummaryRow],
    x: XAxis | None,
    style: dict[str, tuple[str, str]],
) -> list[Path]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2, height_in), layout="constrained")
    axes: Axes = figure.subplots()
    if rows[0].latency is not None:
        _draw_latency(axes, rows, style)
    elif x is None:
        _draw_bars(axes, rows, style)
    else:
        _draw_lines(axes, rows, x, style)
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    paths = [base.with_name(f"{base.name}.{kind}") for kind in FORMATS]
    for path in paths:
        date: dict[str, Any] = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=160, metadata=date)
    return paths


def _draw_bars(axes: Axes, rows: Sequence[SummaryRow], style: dict[str, tuple[str, str]]) -> None:
    drawn = sorted(rows, key=lambda row: (not row.is_baseline, _forwarded(row)))
    values = [_forwarded(row) for row in drawn]
    bars = axes.barh(
        [_label(row) for row in drawn],
        values,
        height=0.62,
        xerr=_whiskers(drawn),
        color=[style[row.contender][0] for row in drawn],
        ecolor="#1c2128",
        capsize=2.5,
    )
    axes.bar_label(bars, labels=[words.number(value) for value in values], padding=5)
    axes.set_xlabel("forwarded load (Mpps); whiskers: 95 % confidence interval")
    axes.grid(axis="y", visible=False)
    axes.set_xlim(0, _end(rows) * 1.14)


def _draw_lines(
    axes: Axes, rows: Sequence[SummaryRow], x: XAxis, style: dict[str, tuple[str, str]]
) -> None:
    for name in sorted({row.contender for row in rows}):
        members = [r for r in rows if r.contender == name and x.of(r) is not None]
        members.sort(key=lambda row: x.of(row) or 0)
        color, marker = style[name]
        axes.errorbar(
            [x.of(row) or 0 for row in members],
            [_forwarded(row) for row in members],
            yerr=_whiskers(members),
            label=name,
            color=color,
            marker=marker,
            linestyle=_WIRE_LINES.get(marker, "-"),
            capsize=2.5,
            markersize=5,
        )
    ticks = x.ticks(rows)
    axes.set_xscale("log" if x.log else "linear")
    axes.set_xticks(ticks, [x.label(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, _end(rows) * 1.05)
    axes.set_xlabel(x.title)
    axes.set_ylabel("forwarded load (Mpps)")
    assert axes.figure is not None
    axes.figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)


def _draw_latency(
    axes: Axes, rows: Sequence[SummaryRow], style: dict[str, tuple[str, str]]
) -> None:
    drawn = sorted(rows, key=lambda row: (not row.is_baseline, -_percentile(row, "50")))
    for position, row in enumerate(drawn):
        assert row.latency is not None
        color = style[row.contender][0]
        ends = (_percentile(row, "50"), row.latency.max_ns / 1e3)
        axes.plot(ends, (position, position), color=color, linewidth=1.5)
        for key, marker in (("50", "o"), ("90", "s"), ("99", "D"), ("99.9", "^")):
            axes.plot(_percentile(row, key), position, marker, color=color, markersize=5)
        axes.plot(ends[1], position, "x", color=color)
    axes.set_yticks(range(len(drawn)), [_label(row) for row in drawn])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("round trip (µs): median o, 90 % □, 99 % ◇, 99.9 % △, longest x")
    axes.grid(axis="y", visible=False)
    axes.margins(y=0.12)


def _styles(rows: Sequence[SummaryRow]) -> dict[str, tuple[str, str]]:
    names = sorted({row.contender for row in rows if not row.is_baseline})
    found = {
        name: (pen.COLORS[i % len(pen.COLORS)], pen.MARKERS[i % len(pen.MARKERS)])
        for i, name in enumerate(names)
    }
    wires = sorted({row.contender for row in rows if row.is_baseline})
    markers = list(_WIRE_LINES)
    return found | {name: (_BASELINE, markers[i % len(markers)]) for i, name in enumerate(wires)}


def _forwarded(row: SummaryRow) -> float:
    return row.throughput.forwarded_pps.mean / 1e6 if row.throughput else 0.0


def _whiskers(rows: Sequence[SummaryRow]) -> tuple[list[float], list[float]]:
    """How far each interval goes down and up."""
    ends = [_interval(row) for row in rows]
    means = [_forwarded(row) for row in rows]
    return (
        [mean - low for mean, (low, _) in zip(means, ends, strict=True)],
        [high - mean for mean, (_, high) in zip(means, ends, strict=True)],
    )


def _interval(row: SummaryRow) -> tuple[float, float]:
    seen = row.throughput.forwarded_pps if row.throughput else None
    if seen is None or seen.low is None or seen.high is None:
        return math.nan, math.nan  # draws nothing: no interval is not an interval of no width
    return seen.low / 1e6, seen.high / 1e6


def _end(rows: Sequence[SummaryRow]) -> float:
    return axis_end([row.throughput.forwarded_pps for row in rows if row.throughput], 1e6)


def _percentile(row: SummaryRow, key: str) -> float:
    assert row.latency is not None
    return row.latency.percentiles_ns[key] / 1e3


def _label(row: SummaryRow) -> str:
    return row.contender if row.valid else f"{row.contender} (not valid)"


def _file_name(kind: str, title: str) -> str:
    told = f"{kind} {title}".lower()
    words_ = "".join(letter if letter.isalnum() else "-" for letter in told)
    return "-".join(part for part in words_.split("-") if part)[:_LONGEST_NAME]
