"""Pictures of methods of many trials, in the form that papers use: the plateau curve and the loss
over loads, a soak over time, times over the share of R+, and R+ against a time at it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from statistics import fmean
from typing import Any

from switchmark.method.registry import METHODS
from switchmark.record import Record
from switchmark.record.method_result import MethodTrial
from switchmark.report import plot
from switchmark.report.axes import facets
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.report.swept_times import STATISTICS, time_lines
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

_AT = re.compile(r"^one-way (mean|median|p99) at ([0-9.e+-]+) R\+$")


def load_panels(
    rows: Sequence[SummaryRow], records: Iterable[Record], look: dict[str, Look]
) -> Panels:
    """Forwarded over offered load, for methods that step through loads."""
    return Panels(
        "Forwarded over offered load",
        "Each mark is a trial of the sweep. The line joins the means at each intended load. Frames "
        "are lost where it is below the thin diagonal, and the plateau is where it is level.",
        list(_over_points(rows, records, look, "loads", _curve)),
    )


def soak_panels(
    rows: Sequence[SummaryRow], records: Iterable[Record], look: dict[str, Look]
) -> Panels:
    """The windows of a soak over time."""
    return Panels(
        "Soak over time",
        "Forwarded load in each window, over the time of the traffic. Open marks are windows "
        "that lost frames.",
        list(_over_points(rows, records, look, "course", _course)),
    )


def _over_points(
    rows: Sequence[SummaryRow],
    records: Iterable[Record],
    look: dict[str, Look],
    picture: str,
    draw: Any,
) -> Iterator[Drawing]:
    """Yield a drawing for each point of the methods with this kind of picture, from the trials in
    the records."""
    methods = {name for name, method in METHODS.items() if method.picture == picture}
    trials: dict[str, list[Sequence[MethodTrial]]] = defaultdict(list)
    row_of = {trial_id: row for row in rows for trial_id in row.trial_ids}
    rows_by_method: dict[str, list[SummaryRow]] = defaultdict(list)
    for record in records:
        row = row_of.get(record.trial_id)
        if row is None or record.method is None or record.method.method not in methods:
            continue
        if not trials[row.trial.id]:
            rows_by_method[record.method.method].append(row)
        trials[row.trial.id].append(record.method.trials)
    for method, members in rows_by_method.items():
        for title, group in facets(members, None):
            name = method if not title else f"{method}, {title}"
            yield draw(name, group, trials, look)


def _curve(
    title: str,
    rows: Sequence[SummaryRow],
    trials_by_row: dict[str, list[Sequence[MethodTrial]]],
    look: dict[str, Look],
) -> Drawing:
    traces: list[plot.Trace] = []
    end = 0.0
    for row in sorted(rows, key=lambda row: row.contender):
        shape = look[row.contender]
        trials = [trial for method_trials in trials_by_row[row.trial.id] for trial in method_trials]
        at: dict[float, list[MethodTrial]] = defaultdict(list)
        for trial in trials:
            at[trial.intended_pps or trial.offered_pps].append(trial)
        means = [at[load] for load in sorted(at)]
        offered = [fmean(trial.offered_pps for trial in same_load) / 1e6 for same_load in means]
        forwarded = [fmean(trial.forwarded_pps for trial in same_load) / 1e6 for same_load in means]
        end = max([end, *offered])
        each = (
            [trial.offered_pps / 1e6 for trial in trials],
            [trial.forwarded_pps / 1e6 for trial in trials],
        )
        hover_text = plot.hover(": %{y:.4g} of %{x:.4g} Mpps", row.contender)
        traces += [
            plot.scatter("markers", *each, marker=shape.mark(6) | {"symbol": "circle-open"}),
            plot.scatter("lines+markers", offered, forwarded, row.contender, hover_text,
                    line=shape.line(), marker=shape.mark()),
        ]  # fmt: skip
    dots = {"color": "@muted", "dash": "dot", "width": 1}
    diagonal = plot.scatter("lines", [0, end], [0, end], "all forwarded", line=dots)
    layout = {
        "xaxis": plot.axis("offered load (Mpps)", rangemode="tozero"),
        "yaxis": plot.axis("forwarded load (Mpps)", rangemode="tozero"),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(title, [diagonal, *traces], layout, 400)


def _course(
    title: str,
    rows: Sequence[SummaryRow],
    trials_by_row: dict[str, list[Sequence[MethodTrial]]],
    look: dict[str, Look],
) -> Drawing:
    traces = []
    for row in sorted(rows, key=lambda row: row.contender):
        shape = look[row.contender]
        solid = shape.marker.removesuffix("-open")
        for number, windows in enumerate(trials_by_row[row.trial.id], start=1):
            name = row.contender + (f" ({number})" if len(trials_by_row[row.trial.id]) > 1 else "")
            ends = list(accumulate(window.duration_s for window in windows))
            loads = [window.forwarded_pps / 1e6 for window in windows]
            symbols = [shape.hollow if window.lost_frames else solid for window in windows]
            hover_text = plot.hover(", %{x:.4g} s: %{y:.4g} Mpps", name)
            traces.append(
                plot.scatter("lines+markers", ends, loads, name, hover_text, line=shape.line(),
                        marker=shape.mark() | {"symbol": symbols})
            )  # fmt: skip
    layout = {
        "xaxis": plot.axis("end of the window (s of traffic)", rangemode="tozero"),
        "yaxis": plot.axis("forwarded load (Mpps)", rangemode="tozero"),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(title, traces, layout, 380)


def _times_at(row: SummaryRow, statistic: str) -> list[tuple[float, Estimate]]:
    """Return the one-way times at shares of R+, in nanoseconds, by share."""
    figures = row.method.figures if row.method is not None else ()
    matches = ((_AT.match(figure.name), figure.value) for figure in figures)
    return sorted(
        ((float(match[2]), value) for match, value in matches if match and match[1] == statistic),
        key=lambda figure: figure[0],
    )


def r_plus_times_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """One-way times over the share of R+ at which they were measured."""
    timed = [row for row in rows if not row.is_baseline and len(_times_at(row, "mean")) > 1]
    return Panels(
        "Latency over the share of R+",
        "One-way times at shares of each switch's own R+, its mean throughput under saturating "
        "input: mean (solid, with its 95 % confidence interval), median (dashed), 99th percentile "
        "(dotted).",
        [_over_share(title, members, look) for title, members in facets(timed, None)],
    )


def _over_share(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    traces: list[plot.Trace] = []
    for row in sorted(rows, key=lambda row: row.contender):
        times_by_statistic = {statistic: _times_at(row, statistic) for statistic in STATISTICS}
        traces += time_lines(
            row.contender, look[row.contender], times_by_statistic, 1e3, " at %{x} R+"
        )
    heights = [value for trace in traces for value in trace["y"] if value > 0]
    layout = {
        "xaxis": plot.axis("share of R+", range=[0, 1.05]),
        "yaxis": plot.log_axis("one-way time (µs)", min(heights) / 1.3, max(heights) * 1.3),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(title, traces, layout, 420)


def scatter_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """R+ against the mean one-way time at the highest share of it: Zhang et al. 2019, figure 1."""
    able = [row for row in rows if not row.is_baseline and _times_at(row, "mean") and _r_plus(row)]
    drawn = [(title, group) for title, group in facets(able, None) if len(group) > 1]
    return Panels(
        "Throughput against latency",
        "R+ of each switch, and the mean one-way time at the highest measured share of R+. Right "
        "and down is better.",
        [_scatter(title, members, look) for title, members in drawn],
    )


def _r_plus(row: SummaryRow) -> Estimate | None:
    """Return the row's R+ in frames/s."""
    figure = row.method.figure("R+") if row.method is not None else None
    return None if figure is None else figure.value


def _scatter(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    traces = []
    shares = set()
    for row in sorted(rows, key=lambda row: row.contender):
        shape, load = look[row.contender], _r_plus(row)
        assert load is not None, "only rows with R+ are drawn"
        share, time = _times_at(row, "mean")[-1]
        shares.add(share)
        place = [load.mean / 1e6], plot.rounded([time.mean], 1e3)
        hover_text = plot.hover(": %{x:.4g} Mpps, %{y:.4g} µs", row.contender)
        traces.append(
            plot.scatter("markers", *place, row.contender, hover_text, marker=shape.mark(11))
        )
    at = ", ".join(f"{share:g}" for share in sorted(shares))
    layout = {
        "xaxis": plot.axis("R+ (Mpps)", rangemode="tozero"),
        "yaxis": plot.axis(f"mean one-way time at {at} R+ (µs)", rangemode="tozero"),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(title, traces, layout, 380)
