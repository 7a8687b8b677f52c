"""Times over a swept parameter, in the form that papers use: mean and percentiles over the frame
size, the burst, the length of a chain or a CPU limit, and the cumulative distributions of all
values.

Round trips, and one-way times of method `one-way`, are never in the same plot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from switchmark.model.campaign import Published
from switchmark.report import plot, words
from switchmark.report.axes import AXES, LINE_FROM, XAxis, end_of_cumulative, facets
from switchmark.report.figures import DASHES, Drawing, Look, Panels
from switchmark.report.latency import share_line
from switchmark.report.throughput import swept_axis, whiskers
from switchmark.results.published import measured
from switchmark.results.rows import SummaryRow
from switchmark.statistics.histogram import Histogram
from switchmark.statistics.means import Estimate

Way = Literal["round-trip", "one-way"]
_WAYS: tuple[Way, ...] = ("round-trip", "one-way")
STATISTICS = {"mean": ("mean", "solid"), "median": ("median", "dash"), "p99": ("p99", "dot")}
_MOST_WITH_MEAN = 3  # contenders of a plot that has the mean
_MOST_LINES = 8  # lines in a cumulative plot


def time_us(row: SummaryRow, statistic: str, way: Way) -> Estimate | None:
    """Return a row's time in microseconds; None if it has no time of this kind."""
    kind = Published(match={}, value=0, unit="us", source="", statistic=statistic, path=way)
    return measured(row, kind)


def swept_times_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Draw mean, median and 99th percentile over each parameter with at least three values."""
    figures: list[list[Drawing]] = []
    for way in _WAYS:
        timed = [row for row in rows if time_us(row, "mean", way) is not None]
        swept = [row for row in timed if not row.is_baseline]
        for x in AXES:
            if len(x.values(swept)) >= LINE_FROM:
                facets_with_values = [(title, [r for r in members if x.of(r) is not None])
                        for title, members in facets(timed, x)]  # fmt: skip
                figures.append(
                    [
                        _lines(title, members, look, x, way)
                        for title, members in facets_with_values
                        if len(x.values(members)) > 1
                    ]
                )
    first, *others = figures or [[]]
    return Panels(
        "Latency over the swept parameter",
        "Median (dashed) and 99th percentile (p99, dotted) of the times. A plot of at most three "
        "contenders also has the mean (solid), with its 95 % confidence interval over the "
        "repetitions.",
        first,
        [drawing for group in others for drawing in group],
    )


def _lines(
    title: str, rows: Sequence[SummaryRow], look: dict[str, Look], x: XAxis, way: Way
) -> Drawing:
    series: dict[str, list[SummaryRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: x.of(row) or 0):
        series[row.contender].append(row)
    traces: list[plot.Trace] = []
    for name, members in sorted(series.items()):
        times_by_statistic = {
            statistic: [
                (x.of(row), time) for row in members if (time := time_us(row, statistic, way))
            ]
            for statistic in STATISTICS
            if statistic != "mean" or len(series) <= _MOST_WITH_MEAN
        }
        traces += time_lines(name, look[name], times_by_statistic, 1.0, ", %{x}")
    layout = {
        "xaxis": swept_axis(x, rows),
        "yaxis": plot.value_axis(f"{way} time (µs)", [[y for trace in traces for y in trace["y"]]]),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(", ".join(filter(None, (f"over {x.title}", title))), traces, layout, 420)


def time_lines(
    name: str,
    shape: Look,
    times_by_statistic: Mapping[str, Sequence[tuple[float | None, Estimate]]],
    scale: float,
    where: str,
) -> Iterator[plot.Trace]:
    """Yield the lines of a contender's times over a swept parameter, by statistic, and the
    intervals of the mean. `scale` converts times to µs; `where` is plotly's template of a place."""
    for statistic, (shown, dash) in STATISTICS.items():
        if statistic not in times_by_statistic:
            continue
        places, values = (
            [place for place, _ in times_by_statistic[statistic]],
            [value for _, value in times_by_statistic[statistic]],
        )
        if statistic == "mean":
            yield whiskers("y", places, values, scale, shape.color)
        times_us = plot.rounded((value.mean for value in values), scale)
        hover_text = plot.hover(f", {shown}{where}: %{{y:.4g}} µs", name)
        yield plot.scatter("lines+markers", places, times_us, f"{name}, {shown}", hover_text,
                      line=shape.line(dash), marker=shape.mark())  # fmt: skip


def swept_cumulative_panels(
    rows: Sequence[SummaryRow], times: Callable[[SummaryRow], Histogram | None]
) -> Panels:
    """Draw a contender's distributions at all swept values in one plot."""
    figures = []
    for way in _WAYS:
        rows_by_contender: dict[str, list[SummaryRow]] = defaultdict(list)
        for row in rows:
            if not row.is_baseline and time_us(row, "mean", way) is not None:
                rows_by_contender[row.contender].append(row)
        for name, members in sorted(rows_by_contender.items()):
            if 1 < len(members) <= _MOST_LINES:
                figures.append(_overlaid(name, members, way, times))
                continue
            x = next((axis for axis in AXES if len(axis.values(members)) > 1), None)
            figures += [
                _overlaid(", ".join(filter(None, (name, title))), group, way, times)
                for title, group in (facets(members, x) if x else ())
                if 1 < len(group) <= _MOST_LINES
            ]
    return Panels(
        "Latency, cumulative, at all swept values",
        "The share of frames that took at most a given time, a line for each value. The axes are "
        "linear and end at the 99th percentile of the slowest, or earlier.",
        figures,
    )


def _overlaid(
    title: str,
    rows: Sequence[SummaryRow],
    way: Way,
    times: Callable[[SummaryRow], Histogram | None],
) -> Drawing:
    varying = words.varying_fields(list(rows))
    traces: list[plot.Trace] = []
    reach_us = 0.0
    for number, row in enumerate(rows):
        row_times = times(row)
        if row_times is None:
            continue
        dash = DASHES[number % len(DASHES)]
        line = {"color": f"@series{number % _MOST_LINES}", "dash": dash, "width": 2}
        traces.append(
            share_line(words.point(dict(row.point), varying), row_times.cumulative(), line)
        )
        p90, p99 = row_times.percentiles_ns(["90", "99"]).values()
        reach_us = max(reach_us, end_of_cumulative(p90, p99) / 1e3)
    layout = {
        "xaxis": plot.axis(f"{way} time (µs)", range=[0, reach_us]),
        "yaxis": plot.axis("share of frames (%)", range=[0, 100]),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(title, traces, layout, 400)
