"""Plots of CPU use: cores of each trial by user, and cores against throughput.

The first shows the cores of the switch, the applications and soft interrupts. The second is Ara et
al. 2021, Figure 6. It has one point for each switch, number of pairs, and number of hosts: the
trial with the highest forwarded load, and all cores that it used on every host. Points are joined
in steps, because a program that polls uses whole cores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from switchmark.formatting import number
from switchmark.report import plot
from switchmark.report.axes import bar_label, compared_facets, mean_forwarded_pps, ranked
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.results.rows import CpuSummary, SummaryRow


def steps_panels(rows: Sequence[SummaryRow], look: dict[str, Look]) -> Panels:
    """Total CPU against the highest throughput, by number of pairs."""
    measured = [row for row in rows if row.throughput and row.cpu and row.cpu.all_hosts_cores]
    sizes = sorted({row.trial.packet_size_bytes for row in measured})
    return Panels(
        "CPU against throughput",
        "The trial with the highest forwarded load of each switch and number of pairs, separately "
        "for one host and two hosts. The horizontal axis has the cores of the switch, the "
        "applications and soft interrupts together, on all hosts. Left and up is better.",
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
    several = len({row.trial.pairs for row in rows}) > 1  # otherwise all labels would be equal
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
        "xaxis": plot.axis("cores used together", rangemode="tozero"),
        "yaxis": plot.axis("most forwarded, Mpps", rangemode="tozero"),
        "legend": plot.LEGEND_BELOW,
    }
    return Drawing(title, traces, layout, 380)


def cpu_panels(rows: Sequence[SummaryRow]) -> Panels:
    """Cores used by the switch, the applications and soft interrupts, by contender."""
    measured = [row for row in rows if row.cpu is not None]
    return Panels(
        "CPU cost",
        "Cores used by the processes of the switch; by the traffic applications, with the soft "
        "interrupts that ran in their CPU time; and by all other soft interrupts. A switch in the "
        "kernel has no process, so its work is part of the other two. A switch that polls uses its "
        "whole core at any load. `ns a frame` is the CPU time of all of them, divided by the "
        "forwarded frames. Cores are averages over the trial and some tenths of a second around "
        "it, so `ns a frame` is not the quotient of cores and forwarded load.",
        [_cpu(title, members) for title, members in compared_facets(measured, None)],
    )


def _cpu(title: str, rows: Sequence[SummaryRow]) -> Drawing:
    drawn = ranked(rows)
    labels = [bar_label(row) for row in drawn]
    costs = [row.cpu for row in drawn if row.cpu]
    parts = (
        ("switch", "@part0", "", [cpu.switch_cores or 0 for cpu in costs]),
        ("applications", "@part1", "/", [cpu.applications_cores for cpu in costs]),
        ("soft interrupts beside them", "@part2", ".", [_beside(cpu) for cpu in costs]),
    )
    traces = []
    for name, color, pattern, values in parts:
        marker = {"color": color, "pattern": {"shape": pattern, "size": 6}}
        traces.append(plot.bars(labels, values, marker, f"{name} %{{x:.2f}} cores", name))
    layout = {
        "barmode": "stack",
        "xaxis": plot.axis("cores used", rangemode="tozero"),
        "yaxis": plot.row_axis(len(drawn)),
        "annotations": plot.row_names(list(zip(labels, map(_in_words, costs), strict=True))),
        "legend": plot.LEGEND_ABOVE | {"traceorder": "normal"},
    }
    return Drawing(title, traces, layout, plot.rows_height(len(drawn), legend=True))


def _beside(cpu: CpuSummary) -> float:
    """Return the cores used neither by the switch nor in the time of the applications, which
    includes most soft interrupts, so that the whole bar is as long as all cores used."""
    if cpu.total_cores is None:
        return cpu.softirq_cores or 0.0
    return max(0.0, cpu.total_cores - (cpu.switch_cores or 0.0) - cpu.applications_cores)


def _in_words(cpu: CpuSummary) -> str:
    parts = ((cpu.total_cores, "cores"), (cpu.more.get("ns_per_frame"), "ns a frame"))
    return ", ".join(f"{number(one)} {unit}" for one, unit in parts if one is not None)
