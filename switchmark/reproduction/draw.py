"""Draws an item in the paper's own form, as SVG and PNG: ours filled, published values hollow.

A line or a bar is a contender; whiskers are 95 % confidence intervals over repetitions. Markers and
hatches differ too, so that no reading depends on colour.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from switchmark.model.campaign import CampaignDefinition, Published
from switchmark.report import pen, words
from switchmark.report.axes import end_of_cumulative
from switchmark.reproduction.drawn import (
    SweptAxis,
    figure_of,
    half_interval,
    legend,
    not_measured,
    published_label,
    row_label,
)
from switchmark.reproduction.grouped import grouped_bars
from switchmark.reproduction.paper import Figure, Item
from switchmark.reproduction.tried import estimate_of
from switchmark.results.rows import SummaryRow
from switchmark.statistics.histogram import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

TimesOf = Callable[[SummaryRow], Histogram | None]  # all times of a row
_WIDTH_IN = 6.4
_MOST_BARS = 40
_STYLES = ("-", "--", "-.", ":")


def draw(
    item: Item,
    rows: Sequence[SummaryRow],
    campaign: CampaignDefinition,
    folder: Path,
    times: TimesOf,
) -> str | None:
    """Write `ITEM.svg` and `ITEM.png` into the folder; returns the SVG as text, None without a
    figure."""
    canvas = drawing(item, rows, campaign, times)
    if canvas is None:
        return None
    text = io.StringIO()
    canvas.savefig(text, format="svg", metadata={"Date": None})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{item.name}.svg").write_text(text.getvalue())
    canvas.savefig(folder / f"{item.name}.png", dpi=160)
    return text.getvalue()


def drawing(
    item: Item, rows: Sequence[SummaryRow], campaign: CampaignDefinition, times: TimesOf
) -> Canvas | None:
    """The item as a figure of matplotlib's, which notebooks show; None without a figure. `times`
    gives all times of a row."""
    from matplotlib.figure import Figure as Canvas

    pen.take_up()
    able = [row for row in rows if row.valid and estimate_of(row, item.y) is not None]
    if not able:
        return None
    bars = item.form == "bars"
    figures = (item.y, *item.more)
    published = [one for one in campaign.published if any(of.is_of(one) for of in figures)]
    held = [(row, of) for row in able for of in figures if estimate_of(row, of) is not None]
    absent = not_measured(item, rows, published)
    shown = min(len(held) + len(absent), _MOST_BARS)
    height = 1.3 + 0.3 * shown if bars else 3.6
    canvas = Canvas(figsize=(_WIDTH_IN, height), layout="constrained")
    axes: Axes = canvas.subplots()
    if bars:
        drawn = held[:_MOST_BARS]
        _bars(axes, drawn, published, absent[: _MOST_BARS - len(drawn)])
    elif item.form == "grouped":
        grouped_bars(axes, item, able, published, absent)
    elif item.form == "scatter":
        _scatter(axes, item, able, campaign.published)
    elif item.form == "cdf":
        _cumulative(axes, able, times, published)
    else:
        _lines(axes, item, able, published, absent)
    return canvas


def _bars(
    axes: Axes,
    held: Sequence[tuple[SummaryRow, Figure]],
    published: Sequence[Published],
    absent: Sequence[Published],
) -> None:
    """Bars one above the other, the published value a diamond in front of its bar; below them the
    published values of what was not measured here."""
    rows, (_, figure) = [row for row, _ in held], held[0]
    scale, _ = figure.scale
    varying = words.varying_fields(rows)
    several = len({of.at for _, of in held}) > 1
    at = [f", {of.at:g} R+" if several else "" for _, of in held]
    names = [row_label(row, varying, rows) + load for row, load in zip(rows, at, strict=True)]
    found = [figure_of(row, of) for row, of in held]
    axes.barh(
        names, [one.mean / scale for one in found], height=0.6, color=pen.COLORS[0],
        xerr=[half_interval(one, scale) for one in found], ecolor="#1c2128", capsize=2.5,
        label="measured here",
    )  # fmt: skip
    theirs = [
        (one.value / scale, name)
        for (row, of), name in zip(held, names, strict=True)
        for one in published
        if of.is_of(one) and one.matches(row.trial)
    ]
    loads = [f", {one.at:g} R+" if several else "" for one in absent]
    theirs += [
        (one.value / scale, f"{published_label(one)}{load} (not here)")
        for one, load in zip(absent, loads, strict=True)
    ]
    if theirs:
        axes.plot(
            [x for x, _ in theirs], [y for _, y in theirs], "D", mfc="white", mec=pen.COLORS[1],
            mew=1.6, label="published",
        )  # fmt: skip
        if max(x for x, _ in theirs) > 30 * max(one.mean / scale for one in found):
            axes.set_xscale("log")
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(figure.model_copy(update={"at": None}).words if several else figure.words)
    legend(axes)


def _lines(
    axes: Axes,
    item: Item,
    rows: Sequence[SummaryRow],
    published: Sequence[Published],
    absent: Sequence[Published],
) -> None:
    """A line for each combination of the other fields; the published values dashed and hollow, grey
    where nothing of the kind was measured here."""
    over, (scale, _) = SweptAxis.of(item), item.y.scale
    varying = over.varying(rows)
    lines: dict[str, list[tuple[float, SummaryRow]]] = {}
    for row in rows:
        at = over.place(getattr(row.trial, over.field))
        if at is not None:
            lines.setdefault(over.label_of(row, varying, rows), []).append((at, row))
    ticks: set[float] = set()
    for number, (name, line) in enumerate(sorted(lines.items())):
        line.sort(key=lambda one: one[0])
        color = pen.COLORS[number % len(pen.COLORS)]
        marker = pen.MARKERS[number % len(pen.MARKERS)]
        found = [figure_of(row, item.y) for _, row in line]
        ticks |= {x for x, _ in line}
        axes.errorbar(
            [x for x, _ in line], [one.mean / scale for one in found],
            yerr=[half_interval(one, scale) for one in found], color=color, marker=marker,
            label=name, capsize=2.5, markersize=5,
        )  # fmt: skip
        theirs = [
            (x, one.value / scale) for x, row in line for one in published if one.matches(row.trial)
        ]
        if theirs:
            axes.plot(
                [x for x, _ in theirs], [y for _, y in theirs], linestyle="--", color=color,
                marker=marker, mfc="white", mew=1.4, label=f"{name}, published",
            )  # fmt: skip
    for number, (name, points) in enumerate(over.not_here(absent, scale).items()):
        ticks |= {x for x, _ in points}
        axes.plot(
            [x for x, _ in points], [y for _, y in points], linestyle="--", color=pen.MUTED,
            marker=pen.MARKERS[number % len(pen.MARKERS)], mfc="white", label=name,
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
    """One figure against another, a mark for every row; hollow where the paper gives both."""
    assert item.across is not None, f"{item.name} has nothing on its other axis"
    varying = words.varying_fields(list(rows))
    for number, row in enumerate(rows):
        across = estimate_of(row, item.across)
        if across is None:
            continue
        axes.plot(
            figure_of(row, item.y).mean / item.y.scale[0], across.mean / item.across.scale[0],
            pen.MARKERS[number % len(pen.MARKERS)], color=pen.COLORS[number % len(pen.COLORS)],
            label=row_label(row, varying, rows),
        )  # fmt: skip
        theirs = [
            [
                one.value / of.scale[0]
                for one in published
                if of.is_of(one) and one.matches(row.trial)
            ]
            for of in (item.y, item.across)
        ]
        if all(theirs):
            axes.plot(
                theirs[0][0], theirs[1][0], pen.MARKERS[number % len(pen.MARKERS)], mfc="white",
                mec=pen.COLORS[number % len(pen.COLORS)], mew=1.4,
                label=f"{row_label(row, varying, rows)}, published",
            )  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(item.y.words)
    axes.set_ylabel(item.across.words)
    legend(axes)


def _cumulative(
    axes: Axes,
    rows: Sequence[SummaryRow],
    times: Callable[[SummaryRow], Histogram | None],
    published: Sequence[Published],
) -> None:
    """The share of the frames that took at most a given time, a line for each value that was swept;
    the published figure upright, in the line's colour."""
    varying = words.varying_fields(list(rows))
    reach_us = 0.0
    for number, row in enumerate(rows):
        held = times(row)
        if held is None:
            continue
        color = pen.COLORS[number % len(pen.COLORS)]
        style = _STYLES[number // len(pen.COLORS) % len(_STYLES)]
        curve = held.cumulative()
        reach_us = max(
            reach_us, end_of_cumulative(*held.percentiles_ns(["90", "99"]).values()) / 1e3
        )
        axes.plot(
            [value / 1e3 for value in curve.value_ns],
            [100 * share for share in curve.quantile],
            style, color=color, label=row_label(row, varying, rows),
        )  # fmt: skip
        for one in published:
            if one.matches(row.trial):
                axes.axvline(one.value, color=color, linestyle=":", linewidth=1)
    axes.set_xlim(0, reach_us)
    axes.set_ylim(0, 100)
    axes.set_xlabel("one-way time (µs); dotted: published, where it lies within")
    axes.set_ylabel("share of frames (%)")
    legend(axes)
