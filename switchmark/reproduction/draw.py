"""Draws an item in the form of the paper, as SVG and PNG: measured values are filled, published
values hollow.

A line or a bar is a contender. Whiskers are 95 % confidence intervals over repetitions. Contenders
also differ in markers and hatches, so that colours are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from switchmark.model.campaign import CampaignDefinition, Published
from switchmark.report import plot_style, words
from switchmark.report.axes import end_of_cumulative
from switchmark.reproduction.bars import draw_bars, grouped_bars, height_in
from switchmark.reproduction.drawing import (
    SweptAxis,
    figure_of,
    in_order,
    is_wide,
    legend,
    not_measured,
    published_label,
    row_label,
    whiskers,
)
from switchmark.reproduction.paper import Item
from switchmark.reproduction.ratio_test import estimate_of
from switchmark.results.rows import SummaryRow
from switchmark.statistics.histogram import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

TimesOf = Callable[[SummaryRow], Histogram | None]  # returns all times of a row
_WIDTH_IN = 6.4
_LEAST_MARK, _MORE_MARK = 5, 3  # size of the first mark of a scatter, and increase, in points
_ROOM = 1.1  # length of an axis of a scatter, relative to the largest value
_STYLES = ("-", "--", "-.", ":")


def draw(
    item: Item,
    rows: Sequence[SummaryRow],
    campaign: CampaignDefinition,
    folder: Path,
    times: TimesOf,
) -> str | None:
    """Write `ITEM.svg` and `ITEM.png` into the folder. Return the SVG as text; None if no row has
    the figure."""
    canvas = drawing(item, rows, campaign, times)
    if canvas is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    scalable = folder / f"{item.name}.svg"
    for path in (scalable, scalable.with_suffix(".png")):
        plot_style.save(canvas, path)
    return scalable.read_text("utf-8")


def drawing(
    item: Item, rows: Sequence[SummaryRow], campaign: CampaignDefinition, times: TimesOf
) -> Canvas | None:
    """Return the item as a figure of matplotlib, which notebooks show; None if no row has the
    figure. `times` returns all times of a row."""
    from matplotlib.figure import Figure as Canvas

    plot_style.take_up()
    able = [row for row in rows if row.valid and estimate_of(row, item.y) is not None]
    if not able:
        return None
    figures = (item.y, *item.more)
    published = [value for value in campaign.published if any(of.is_of(value) for of in figures)]
    absent = not_measured(item, rows, published)
    if item.form == "bars":
        lines = len(able) + len({published_label(value) for value in absent})
        canvas = Canvas(figsize=(_WIDTH_IN, height_in(lines)), layout="constrained")
        draw_bars(canvas, figures, able, published, absent)
        return canvas
    canvas = Canvas(figsize=(_WIDTH_IN, 3.6), layout="constrained")
    axes: Axes = canvas.subplots()
    if item.form == "grouped":
        grouped_bars(axes, item, able, published, absent)
    elif item.form == "scatter":
        _scatter(axes, item, able, campaign.published)
    elif item.form == "cdf":
        known = [v for v in campaign.published if v.is_time and v.path == item.y.path]
        _cumulative(axes, able, times, known)
    else:
        _lines(axes, item, able, published, absent)
    return canvas


def _lines(
    axes: Axes,
    item: Item,
    rows: Sequence[SummaryRow],
    published: Sequence[Published],
    absent: Sequence[Published],
) -> None:
    """Draw a line for each combination of the other fields. Published values are dashed and hollow,
    and grey if they were not measured here."""
    over, (scale, _) = SweptAxis.of(item), item.y.scale
    varying = over.varying(rows)
    lines: dict[str, list[tuple[float, SummaryRow]]] = {}
    for row in rows:
        at = over.place(getattr(row.trial, over.field))
        if at is not None:
            lines.setdefault(over.label_of(row, varying, rows), []).append((at, row))
    ticks: set[float] = set()
    for number, (name, line) in enumerate(sorted(lines.items(), key=lambda kv: in_order(kv[0]))):
        line.sort(key=lambda point: point[0])
        color = plot_style.COLORS[number % len(plot_style.COLORS)]
        marker = plot_style.MARKERS[number % len(plot_style.MARKERS)]
        found = [figure_of(row, item.y) for _, row in line]
        ticks |= {x for x, _ in line}
        axes.errorbar(
            [x for x, _ in line], [estimate.mean / scale for estimate in found],
            yerr=whiskers(found, scale), color=color, marker=marker,
            label=name, capsize=2.5, markersize=5,
        )  # fmt: skip
        hollow = [
            (x, value.value / scale)
            for x, row in line
            for value in published
            if value.matches(row.trial)
        ]
        if hollow:
            axes.plot(
                [x for x, _ in hollow], [y for _, y in hollow], linestyle="--", color=color,
                marker=marker, mfc="white", mew=1.4, label=f"{name}, published",
            )  # fmt: skip
    for number, (name, points) in enumerate(over.not_here(absent, scale).items()):
        ticks |= {x for x, _ in points}
        axes.plot(
            [x for x, _ in points], [y for _, y in points], linestyle="--", color=plot_style.MUTED,
            marker=plot_style.MARKERS[number % len(plot_style.MARKERS)], mfc="white", label=name,
        )  # fmt: skip
    shown = sorted(ticks)
    axes.set_xscale("log" if over.log else "linear")
    axes.set_xticks(shown, [over.label(tick) for tick in shown])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(over.title)
    axes.set_ylabel(item.y.words)
    legend(axes)


def _scatter(
    axes: Axes, item: Item, rows: Sequence[SummaryRow], published: Sequence[Published]
) -> None:
    """Draw one figure against another, with a mark and both intervals for every row, and a hollow
    mark if the paper has both figures. Colour and shape show the contender, the size its row."""
    assert item.across is not None, f"{item.name} has no figure on its other axis"
    varying = words.varying_fields(list(rows))
    shown = [row for row in rows if estimate_of(row, item.across) is not None]
    labels = {id(row): row_label(row, varying, rows) for row in shown}
    contenders = sorted({row.contender for row in shown}, key=in_order)
    points = sorted({str(row.point) for row in shown}, key=in_order)
    x_of, y_of = item.y, item.across
    for row in sorted(shown, key=lambda row: in_order(labels[id(row)])):
        number = contenders.index(row.contender)
        color, marker = (
            plot_style.COLORS[number % len(plot_style.COLORS)],
            plot_style.MARKERS[number % len(plot_style.MARKERS)],
        )
        size = _LEAST_MARK + _MORE_MARK * points.index(str(row.point))
        found, across = figure_of(row, x_of), figure_of(row, y_of)
        axes.errorbar(
            found.mean / x_of.scale[0], across.mean / y_of.scale[0],
            xerr=whiskers([found], x_of.scale[0]), yerr=whiskers([across], y_of.scale[0]),
            fmt=marker, color=color, elinewidth=0.7, markersize=size, label=labels[id(row)],
        )  # fmt: skip
        hollow = [
            [
                value.value / of.scale[0]
                for value in published
                if of.is_of(value) and value.matches(row.trial)
            ]
            for of in (x_of, y_of)
        ]
        if all(hollow):
            axes.plot(
                hollow[0][0], hollow[1][0], marker, mfc="white", mec=color, mew=1.4,
                markersize=size, label=f"{labels[id(row)]}, published",
            )  # fmt: skip
    axes.set_xlim(0, _ROOM * axes.dataLim.x1)
    axes.set_ylim(0, _ROOM * axes.dataLim.y1)
    axes.set_xlabel(x_of.words)
    axes.set_ylabel(y_of.words)
    legend(axes)


def _cumulative(
    axes: Axes,
    rows: Sequence[SummaryRow],
    times: Callable[[SummaryRow], Histogram | None],
    published: Sequence[Published],
) -> None:
    """Draw the share of frames within a given time, with a line for each row. Published statistics
    (minimum, median, percentiles, maximum) are hollow marks in the colour of the line."""
    varying = words.varying_fields(list(rows))
    reach_us = 0.0
    marks_us: list[float] = []
    medians_us: list[float] = []
    for number, row in enumerate(rows):
        histogram = times(row)
        if histogram is None:
            continue
        color = plot_style.COLORS[number % len(plot_style.COLORS)]
        style = _STYLES[number // len(plot_style.COLORS) % len(_STYLES)]
        curve = histogram.cumulative()
        median_ns, *upper_ns = histogram.percentiles_ns(["50", "90", "99"]).values()
        reach_us = max(reach_us, end_of_cumulative(*upper_ns) / 1e3)
        medians_us.append(median_ns / 1e3)
        axes.plot(
            [value / 1e3 for value in curve.value_ns],
            [100 * share for share in curve.quantile],
            style, color=color, label=row_label(row, varying, rows),
        )  # fmt: skip
        hollow = [
            (value.value, share)
            for value in published
            if value.matches(row.trial) and (share := _share_of(value)) is not None
        ]
        if hollow:
            axes.plot(
                [x for x, _ in hollow], [y for _, y in hollow], "D", mfc="white", mec=color,
                mew=1.4, clip_on=False,
                label="" if marks_us else "published, in the colour of its line",
            )  # fmt: skip
            marks_us += [x for x, _ in hollow]
    reach_us = max(reach_us, 1.05 * max(marks_us, default=0.0))
    if is_wide([reach_us, *marks_us, *medians_us]):
        axes.set_xscale("log")
        axes.set_xlim(right=reach_us)
    else:
        axes.set_xlim(0, reach_us)
    axes.set_ylim(0, 100)
    axes.set_xlabel("one-way time (µs)")
    axes.set_ylabel("share of frames (%)")
    legend(axes)


def _share_of(value: Published) -> float | None:
    """Return the position of a published statistic in a cumulative distribution, in percent."""
    known = {"min": 0.0, "median": 50.0, "max": 100.0}
    if value.of.startswith("p") and value.of[1:].replace(".", "", 1).isdigit():
        return float(value.of[1:])
    return known.get(value.of)
