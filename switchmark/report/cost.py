"""CPU used against the highest throughput reached with it: Ara et al. 2021, Figure 6.

There is one point for each switch, number of pairs, and number of hosts: the trial that forwarded
most, and the cores that all of the trial used, on every host. Points are joined in steps, since
cores come whole where programs poll.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from switchmark.report import plot
from switchmark.report.drawn_rows import mean_forwarded_pps
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.results.rows import SummaryRow


def steps_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Total CPU against the highest throughput, by number of pairs."""
    measured = [row for row in rows if row.throughput and row.cpu and row.cpu.all_hosts_cores]
    sizes = sorted({row.trial.packet_size_bytes for row in measured})
    return Panels(
        "CPU against throughput",
        "For each switch and number of pairs, on one host and between two apart, the trial that "
        "forwarded most, over the cores that switch, applications and soft interrupts used "
        "together, on all hosts. Left and up is better.",
        [
            _steps("" if len(sizes) == 1 else f"{size} B", members, look)
            for size in sizes
            if _several(members := [r for r in measured if r.trial.packet_size_bytes == size])
        ],
    )


def _several(rows: Sequence[SummaryRow]) -> bool:
    return len({(row.contender, row.trial.location, row.trial.pairs) for row in rows}) > 1


def _steps(title: str, rows: Sequence[SummaryRow], look: dict[str, Look]) -> Drawing:
    best: dict[tuple[str, str], dict[int, SummaryRow]] = defaultdict(dict)
    for row in sorted(rows, key=mean_forwarded_pps):
        best[row.contender, row.trial.location][row.trial.pairs] = row
    traces = []
    several = len({row.trial.pairs for row in rows}) > 1  # else nothing tells the points apart
    apart = len({row.trial.location for row in rows}) > 1
    for (contender, location), by_pairs in sorted(best.items()):
        members = [by_pairs[pairs] for pairs in sorted(by_pairs)]
        shape = look[contender]
        remote = apart and location == "remote"
        name = f"{contender}, {'two hosts' if remote else 'one host'}" if apart else contender
        traces.append(
            plot.scatter(
                "lines+markers+text" if several else "lines+markers",
                [row.cpu.all_hosts_cores for row in members if row.cpu],
                [mean_forwarded_pps(row) / 1e6 for row in members],
                name,
                plot.hover(", %{text}: %{y:.4g} Mpps, %{x:.2f} cores", name),
                text=[f"{row.trial.pairs}vs{row.trial.pairs}" for row in members],
                textposition="top center",
                line=shape.line() | {"shape": "hv"},
                marker=shape.mark(9) | {"symbol": shape.hollow if remote else shape.marker},
            )
        )
    layout = {
        "xaxis": plot.axis("cores used in all", rangemode="tozero"),
        "yaxis": plot.axis("most forwarded, Mpps", rangemode="tozero"),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(title, traces, layout, 380)
