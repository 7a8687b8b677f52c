"""What methods of many trials found, as the papers draw it: the plateau curve and the loss over
loads, the course of a soak, times over the share of R+, and R+ against a time at it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from markupsafe import Markup

from switchmark.method.registry import METHODS
from switchmark.report.drawn_rows import facets
from switchmark.report.figures import Drawing, Look, Panels, axis, log_axis
from switchmark.report.throughput import whiskers
from switchmark.results.record import Record
from switchmark.results.record.method_result import MethodTrial
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

_AT = re.compile(r"^one-way (mean|median|p99) at ([0-9.e+-]+) R\+$")
_STATISTICS = (("mean", "mean", "solid"), ("median", "median", "dash"), ("p99", "99 %", "dot"))


def load_panels(
    rows: Sequence[SummaryRow], records: Iterable[Record], look: dict[str, Look]
) -> Panels:
    """Forwarded over offered load, of methods that step through loads."""
    return Panels(
        "Forwarded over offered load",
        "Every trial of the sweep; the line joins the means at each load that was intended. Where "
        "it leaves the thin diagonal, frames are lost; where it goes level is the plateau.",
        list(_over_points(rows, records, look, "loads", _curve)),
    )


def soak_panels(
    rows: Sequence[SummaryRow], records: Iterable[Record], look: dict[str, Look]
) -> Panels:
    """The windows of a soak over time."""
    return Panels(
        "Soak over time",
        "Forwarded load, window by window of the traffic's own time; open marks are windows that "
        "lost frames.",
        list(_over_points(rows, records, look, "course", _course)),
    )


def _over_points(
    rows: Sequence[SummaryRow],
    records: Iterable[Record],
    look: dict[str, Look],
    picture: str,
    draw: Any,
) -> Iterator[Drawing]:
    """A drawing for each point of the methods that are drawn so, from the trials that records of
    them made."""
    methods = {name for name, method in METHODS.items() if method.picture == picture}
    found: dict[str, list[Sequence[MethodTrial]]] = defaultdict(list)
    row_of = {one: row for row in rows for one in row.trial_ids}
    of: dict[str, list[SummaryRow]] = defaultdict(list)
    for record in records:
        row = row_of.get(record.trial_id)
        if row is None or record.method is None or record.method.method not in methods:
            continue
        if not found[row.trial.id]:
            of[record.method.method].append(row)
        found[row.trial.id].append(record.method.trials)
    for method, members in of.items():
        for title, group in facets(members, None):
            name = method if not title else f"{method}, {title}"
            yield draw(name, group, found, look)


def _curve(
    title: str,
    rows: Sequence[SummaryRow],
    found: dict[str, list[Sequence[MethodTrial]]],
    look: dict[str, Look],
) -> Drawing:
    traces: list[dict[str, Any]] = []
    end = 0.0
    for row in sorted(rows, key=lambda row: row.contender):
        shape = look[row.contender]
        trials = [one for made in found[row.trial.id] for one in made]
        at: dict[float, list[MethodTrial]] = defaultdict(list)
        for one in trials:
            at[one.intended_pps or one.offered_pps].append(one)
        line = [
            [sum(one.offered_pps for one in at[load]) / len(at[load]) / 1e6 for load in sorted(at)],
            [sum(one.forwarded_pps for one in at[load]) / len(at[load]) / 1e6
             for load in sorted(at)],
        ]  # fmt: skip
        end = max([end, *line[0]])
        traces += [
            {
                "type": "scatter", "mode": "markers", "showlegend": False, "hoverinfo": "skip",
                "x": [one.offered_pps / 1e6 for one in trials],
                "y": [one.forwarded_pps / 1e6 for one in trials],
                "marker": {"color": shape.color, "symbol": "circle-open", "size": 6},
            },
            {
                "type": "scatter", "mode": "lines+markers", "name": row.contender,
                "x": line[0], "y": line[1],
                "line": {"color": shape.color, "dash": shape.dash, "width": 2},
                "marker": {"color": shape.color, "symbol": shape.marker, "size": 8},
                "hovertemplate": Markup(
                    "{}: %{{y:.4g}} of %{{x:.4g}} Mpps<extra></extra>"
                ).format(row.contender),
            },
        ]  # fmt: skip
    diagonal = {
        "type": "scatter", "mode": "lines", "name": "all forwarded", "hoverinfo": "skip",
        "x": [0, end], "y": [0, end], "line": {"color": "@muted", "dash": "dot", "width": 1},
    }  # fmt: skip
    layout = {
        "xaxis": axis("offered load (Mpps)", rangemode="tozero"),
        "yaxis": axis("forwarded load (Mpps)", rangemode="tozero"),
        "legend": {"orientation": "h", "y": -0.28},
    }
    return Drawing(title, [diagonal, *traces], layout, 400)


def _course(
    title: str,
    rows: Sequence[SummaryRow],
    found: dict[str, list[Sequence[MethodTrial]]],
    look: dict[str, Look],
) -> Drawing:
    traces = []
    for row in sorted(rows, key=lambda row: row.contender):
        shape = look[row.contender]
        solid = shape.marker.removesuffix("-open")
        for number, windows in enumerate(found[row.trial.id], start=1):
            name = row.contender + (f" ({number})" if len(found[row.trial.id]) > 1 else "")
            ends = list(accumulate(one.duration_s for one in windows))
            traces.append(
                {
                    "type": "scatter", "mode": "lines+markers", "name": name, "x": ends,
                    "y": [one.forwarded_pps / 1e6 for one in windows],
                    "line": {"color": shape.color, "dash": shape.dash, "width": 2},
                    "marker": {
                        "color": shape.color, "size": 8,
                        "symbol": [f"{solid}-open" if one.lost_frames else solid
                                   for one in windows],
                    },
                    "hovertemplate": Markup(
                        "{}, %{{x:.4g}} s: %{{y:.4g}} Mpps<extra></extra>"
                    ).format(name),
                }
            )  # fmt: skip
    layout = {
        "xaxis": axis("end of the window (s of traffic)", rangemode="tozero"),
        "yaxis": axis("forwarded load (Mpps)", rangemode="tozero"),
        "legend": {"orientation": "h", "y": -0.28},
    }
    return Drawing(title, traces, layout, 380)


def _times_at(row: SummaryRow, statistic: str) -> list[tuple[float, Estimate]]:
    """The one-way times at shares of R+, in nanoseconds, by share."""
    held = row.method.figures if row.method is not None else ()
    found = ((_AT.match(one.name), one.value) for one in held)
    return sorted(
        ((float(match[2]), value) for match, value in found if match and match[1] == statistic),
        key=lambda one: one[0],
    )


def r_plus_times_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """One-way times over the share of R+ at which they were taken."""
    timed = [row for row in rows if not row.is_baseline and len(_times_at(row, "mean")) > 1]
    return Panels(
        "Latency over the share of R+",
        "One-way times at shares of each switch's own R+, its mean throughput under saturating "
        "input: mean (solid, with its 95 % confidence interval), median (dashed), 99 % (dotted).",
        [_over_share(title, members, look) for title, members in facets(timed, None)],
    )


def _over_share(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    traces: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: row.contender):
        shape = look[row.contender]
        for statistic, told, dash in _STATISTICS:
            known = _times_at(row, statistic)
            places, values = [share for share, _ in known], [one for _, one in known]
            if statistic == "mean":
                traces.append(whiskers("y", places, values, 1e3, shape.color))
            traces.append(
                {
                    "type": "scatter", "mode": "lines+markers",
                    "name": f"{row.contender}, {told}", "x": places,
                    "y": [float(f"{one.mean / 1e3:.5g}") for one in values],
                    "line": {"color": shape.color, "dash": dash, "width": 2},
                    "marker": {"color": shape.color, "symbol": shape.marker, "size": 8},
                    "hovertemplate": Markup(
                        "{}, {} at %{{x}} R+: %{{y:.4g}} µs<extra></extra>"
                    ).format(row.contender, told),
                }
            )  # fmt: skip
    heights = [value for trace in traces for value in trace["y"] if value > 0]
    layout = {
        "xaxis": axis("share of R+", range=[0, 1.05]),
        "yaxis": log_axis("one-way time (µs)", min(heights) / 1.3, max(heights) * 1.3),
        "legend": {"orientation": "h", "y": -0.28},
    }
    return Drawing(title, traces, layout, 420)


def scatter_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """R+ against the mean one-way time at the highest share of it: Zhang et al. 2019, figure 1."""
    able = [row for row in rows if not row.is_baseline and _times_at(row, "mean") and _found(row)]
    drawn = [(title, group) for title, group in facets(able, None) if len(group) > 1]
    return Panels(
        "Throughput against latency",
        "R+ of each switch, and the mean one-way time at the highest share of it that was timed. "
        "Right and down is better.",
        [_scatter(title, members, look) for title, members in drawn],
    )


def _found(row: SummaryRow) -> Estimate | None:
    """The row's R+ in frames/s."""
    if row.method is None:
        return None
    return next((one.value for one in row.method.figures if one.name == "R+"), None)


def _scatter(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    traces = []
    shares = set()
    for row in sorted(rows, key=lambda row: row.contender):
        shape, load = look[row.contender], _found(row)
        assert load is not None, "only rows with R+ are drawn"
        share, time = _times_at(row, "mean")[-1]
        shares.add(share)
        traces.append(
            {
                "type": "scatter", "mode": "markers", "name": row.contender,
                "x": [load.mean / 1e6], "y": [float(f"{time.mean / 1e3:.5g}")],
                "marker": {"color": shape.color, "symbol": shape.marker, "size": 11},
                "hovertemplate": Markup(
                    "{}: %{{x:.4g}} Mpps, %{{y:.4g}} µs<extra></extra>"
                ).format(row.contender),
            }
        )  # fmt: skip
    at = ", ".join(f"{share:g}" for share in sorted(shares))
    layout = {
        "xaxis": axis("R+ (Mpps)", rangemode="tozero"),
        "yaxis": axis(f"mean one-way time at {at} R+ (µs)", rangemode="tozero"),
        "legend": {"orientation": "h", "y": -0.28},
    }
    return Drawing(title, traces, layout, 380)
