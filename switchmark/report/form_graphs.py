"""The graphs of RFC 2544, section 26, as SVG beside a form.

26.1: frames a second over the frame size, for the device and for the medium. 26.3: loss over the
offered load, a line for each frame size.
"""

from __future__ import annotations

import math
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from switchmark.report import plot_style
from switchmark.report.form_source import FormSource, RepeatedTrial, highest_load_pps, loss_share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THROUGHPUT, LOSS = "ndr-pdr", "loss-vs-load"  # the methods whose parts have a graph


def write_form_graphs(measured: FormSource, stem: Path) -> dict[str, Path]:
    """Write the graphs as `STEM-throughput.svg` and `STEM-loss.svg`; returns the files by method,
    without those for which nothing was measured."""
    plot_style.take_up()
    drawn = {THROUGHPUT: ("throughput", _throughput(measured)), LOSS: ("loss", _loss(measured))}
    written = {}
    for method, (name, figure) in drawn.items():
        if figure is not None:
            path = stem.with_name(f"{stem.name}-{name}.svg")
            plot_style.save(figure, path)
            written[method] = path
    return written


Lines = dict[str, dict[float, float]]  # name -> x -> y


def _throughput(measured: FormSource) -> Figure | None:
    """Draw throughput: the first goal of each search (no loss), the mean of its repetitions."""
    lines: Lines = {}
    searched = measured.repeated(THROUGHPUT)
    for each in searched:
        goals = [result.bounds[0] for result in each.results if result.bounds]
        rates = [goal.lower_pps for goal in goals if goal.lower_pps is not None]
        if rates:
            lines.setdefault(_line(each), {})[each.size] = fmean(rates) / 1e6
    sizes = [each.size for each in searched]
    medium: dict[float, float] = {}
    streams = {result.trial.streams for each in searched for result in each.records}
    if measured.medium is not None and len(streams) == 1:  # otherwise there would be several lines
        along = sorted({*sizes, *range(math.ceil(min(sizes)), math.floor(max(sizes)) + 1)})
        medium = {size: measured.medium.pps(size) * min(streams) / 1e6 for size in along}
    return _drawn(lines, "frame size with FCS (bytes)", "throughput (Mpps)", medium)


def _loss(measured: FormSource) -> Figure | None:
    """Draw loss over the load as a share of the rate of the medium; without a medium, as a share of
    the highest load."""
    lines: Lines = {}
    for each in measured.repeated(LOSS):
        many = len(each.records) > 1
        for number, result in enumerate(each.results, start=1):
            whole = measured.theoretical_pps(each.records[0]) or highest_load_pps(result)
            if whole:  # each repetition is a line, because their loads differ
                name = f"{_line(each)}, {each.size:g} B" + (f" ({number})" if many else "")
                lines[name] = {
                    100 * trial.offered_pps / whole: 100 * loss_share(trial)
                    for trial in result.trials
                }
    of = "highest load" if measured.medium is None else "theoretical rate"
    return _drawn(lines, f"offered load (% of the {of})", "loss (%)", {})


def _line(each: RepeatedTrial) -> str:
    return each.device if each.streams == "1" else f"{each.device}, pairs: {each.streams}"


def _drawn(lines: Lines, x: str, y: str, medium: dict[float, float]) -> Figure | None:
    """Draw the lines; None without lines."""
    if not lines:
        return None
    from matplotlib.figure import Figure

    names = [*lines, *(["theoretical"] if medium else [])]
    figure = Figure(figsize=(6.2, 3.4 + plot_style.legend_in(names)), layout="constrained")
    axes = figure.subplots()
    styles = zip(cycle(plot_style.COLORS), cycle(plot_style.MARKERS))
    for (name, points), (color, marker) in zip(lines.items(), styles, strict=False):
        along = sorted(points)
        axes.plot(
            along,
            [points[value] for value in along],
            marker=marker,
            color=color,
            label=plot_style.wrapped(name),
        )
    if medium:
        along = sorted(medium)
        axes.plot(
            along,
            [medium[value] for value in along],
            "--",
            color=plot_style.MUTED,
            label="theoretical",
        )
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    plot_style.legend_below(figure)
    return figure
