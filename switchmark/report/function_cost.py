"""Plots of the cost of network functions: the share of its figure that each contender keeps, over
the scale of the function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from switchmark.report import plot
from switchmark.report.axes import AXES, XAxis
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.results.function_share import (
    FunctionShare,
    differing_words,
    group_of,
    scale_key_of,
)

_HEIGHT = 380


def function_cost_panels(shares: Sequence[FunctionShare], look: dict[str, Look]) -> Panels:
    """The figure of each contender with a function as a ratio to the figure of its baseline; a plot
    for each function and figure that were measured at two scales or more."""
    groups: dict[tuple[Any, ...], list[FunctionShare]] = defaultdict(list)
    for share in shares:
        if share.scale is not None and share.contender in look:
            groups[group_of(share, with_scale=False)].append(share)
    drawn = [group for group in groups.values() if len({share.scale for share in group}) > 1]
    titles = differing_words([group[0] for group in drawn], _title)
    return Panels(
        "Cost of the function",
        "The figure with the function, divided by the figure of the same contender without it, "
        "from pairs of trials in the same block. Whiskers are 95 % confidence intervals.",
        [_lines(group, look, more) for group, more in zip(drawn, titles, strict=True)],
    )


def _title(share: FunctionShare) -> str:
    return f"{share.trial.function}, {share.metric.name}"


def _lines(group: Sequence[FunctionShare], look: dict[str, Look], more: str) -> Drawing:
    """Draw a group; `more` has the values that distinguish it from others with the same title."""
    first = group[0]
    key = scale_key_of(first.trial)
    axis = next(axis for axis in AXES if axis.field == key)
    series: dict[str, list[FunctionShare]] = defaultdict(list)
    for share in group:
        series[share.contender].append(share)
    traces: list[plot.Trace] = []
    for name, members in sorted(series.items()):
        shape = look[name]
        members.sort(key=lambda share: getattr(share.trial, key))
        points = [(_place(axis, share, key), share) for share in members]
        known = [(place, share.ratio) for place, share in points if share.ratio]
        ends = plot.error_bars(
            [ratio.high - ratio.value for _, ratio in known],
            [ratio.value - ratio.low for _, ratio in known],
            color=shape.color, thickness=1.5, width=5,
        )  # fmt: skip
        traces += [
            plot.scatter("markers", [place for place, _ in known],
                    [ratio.value for _, ratio in known], marker={"opacity": 0}) | {"error_y": ends},
            plot.scatter("lines+markers", [place for place, _ in points],
                    [share.value for _, share in points], name,
                    plot.hover(f" at %{{x}} {axis.title}: %{{y:.3g}}", name),
                    line=shape.line(), marker=shape.mark(9)),
        ]  # fmt: skip
    ticks = sorted({_place(axis, share, key) for share in group})
    highest = max(share.value for share in group)
    of = "rate" if first.metric.higher_is_better else "time"
    layout = {
        "xaxis": plot.axis(axis.title, type="log", tickvals=ticks,
                           ticktext=[axis.label(tick) for tick in ticks]),
        "yaxis": plot.value_axis(f"{of} with / without the function",
                                 [[share.value for share in group]], 1.15 * max(1, highest)),
        "legend": plot.LEGEND_BELOW,
    }  # fmt: skip
    return Drawing(", ".join(filter(None, (_title(first), more))), traces, layout, _HEIGHT)


def _place(axis: XAxis, share: FunctionShare, key: str) -> float:
    return axis.place(getattr(share.trial, key)) or 0.0
