"""CPU used against the highest throughput reached with it: Ara et al. 2021, Figure 6.

There is one point for each switch and number of pairs: the trial that forwarded most, and the
cores that all of the trial used. Points are joined in steps, since cores come whole where
programs poll.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from markupsafe import Markup

from switchmark.report.figures import Drawing, Look, Panels, axis
from switchmark.results.rows import SummaryRow


def steps_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Total CPU against the highest throughput, by number of pairs."""
    measured = [row for row in rows if row.throughput and row.cpu and row.cpu.total_cores]
    several = (
        len({row.trial.pairs for row in measured}) > 1
        or len({row.contender for row in measured}) > 1
    )
    return Panels(
        "CPU against throughput",
        "For each switch and number of pairs, the trial that forwarded most, over the cores that "
        "switch, applications and soft interrupts used together. Left and up is better.",
        [_steps(measured, look)] if several else [],
    )


def _steps(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    best: dict[str, dict[int, SummaryRow]] = defaultdict(dict)
    for row in sorted(rows, key=_forwarded):
        best[row.contender][row.trial.pairs] = row
    traces = []
    several = len({row.trial.pairs for row in rows}) > 1  # else nothing tells the points apart
    for name, by_pairs in sorted(best.items()):
        members = [by_pairs[pairs] for pairs in sorted(by_pairs)]
        shape = look[name]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers+text" if several else "lines+markers",
                "name": name,
                "x": [row.cpu.total_cores for row in members if row.cpu],
                "y": [_forwarded(row) / 1e6 for row in members],
                "text": [f"{row.trial.pairs}vs{row.trial.pairs}" for row in members],
                "textposition": "top center",
                "line": {"color": shape.color, "dash": shape.dash, "shape": "hv"},
                "marker": {"color": shape.color, "symbol": shape.marker, "size": 9},
                "hovertemplate": Markup(
                    "{}, %{{text}}: %{{y:.4g}} Mpps, %{{x:.2f}} cores<extra></extra>"
                ).format(name),
            }
        )
    layout = {
        "xaxis": axis("cores used in all", rangemode="tozero"),
        "yaxis": axis("most forwarded, Mpps", rangemode="tozero"),
        "legend": {"orientation": "h", "y": -0.28},
    }
    return Drawing("", traces, layout, 380)


def _forwarded(row: SummaryRow) -> float:
    return row.throughput.forwarded_pps.mean if row.throughput else 0.0
