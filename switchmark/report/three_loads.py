"""The three loads of each contender: intended, offered and forwarded, on one line."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.formatting import number
from switchmark.report import plot
from switchmark.report.drawn_rows import bar_label, facets, mean_forwarded_pps, ranked
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.results.rows import SummaryRow


def loads_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Intended, offered and forwarded load: three numbers, never one."""
    return Panels(
        "Three loads",
        "Intended: what the schedule asked for (none when the sender was told to saturate). "
        "Offered: what the port accepted. Forwarded: what arrived. All are rates in the kept "
        "window, by the clocks of both ends, so that a short or disturbed trial may show more "
        "arriving than was offered; loss is counted frame by frame over the whole trial.",
        [_loads(title, members, look) for title, members in facets(rows, None)],
    )


def _loads(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    drawn = ranked(rows)
    labels = [bar_label(row) for row in drawn]
    offered = [row.throughput.offered_pps.mean / 1e6 for row in drawn if row.throughput]
    forwarded = [mean_forwarded_pps(row) / 1e6 for row in drawn]
    intended = [row.throughput.intended_pps if row.throughput else None for row in drawn]
    colors = [look[row.contender].color for row in drawn]
    gaps = list(zip(forwarded, offered, strict=True))
    traces = [
        plot.scatter(
            "lines",
            [end for low, high in gaps for end in (low, high, None)],
            [end for place in range(len(gaps)) for end in (place, place, None)],
            line={"color": "@line", "width": 5},
        )
    ]
    if any(intended):
        due = [load and load / 1e6 for load in intended]
        traces.append(_marks("intended", due, labels, "line-ns", 16, "@ink"))
    traces.append(_marks("offered", offered, labels, "circle-open", 12, colors))
    traces.append(_marks("forwarded", forwarded, labels, "circle", 12, colors))
    remarks = [f"{number(low)} of {number(high)} Mpps" for low, high in gaps]
    layout = {
        "xaxis": plot.axis("Mpps", rangemode="tozero"),
        "yaxis": plot.row_axis(len(drawn)),
        "annotations": plot.row_names(list(zip(labels, remarks, strict=True))),
        "legend": plot.LEGEND_ABOVE,
    }
    return Drawing(title, traces, layout, plot.rows_height(len(drawn), legend=True))


def _marks(
    name: str,
    x: Sequence[float | None],
    labels: Sequence[str],
    symbol: str,
    size: int,
    color: str | Sequence[str],
) -> plot.Trace:
    marker = {"symbol": symbol, "size": size, "color": color, "line": {"width": 2, "color": color}}
    return plot.row_marks(name, x, labels, "Mpps", marker)
