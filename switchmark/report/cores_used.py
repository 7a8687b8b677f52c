"""The cores that a trial used, by who used them: the switch, the applications, soft interrupts."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.formatting import number
from switchmark.report import plot
from switchmark.report.drawn_rows import bar_label, facets, ranked
from switchmark.report.figures import Drawing, Panels
from switchmark.results.rows import CpuSummary, SummaryRow


def cpu_panels(rows: Sequence[SummaryRow]) -> Panels:
    """Cores used by the switch, the applications and soft interrupts, by contender."""
    measured = [row for row in rows if row.cpu is not None]
    return Panels(
        "CPU cost",
        "Cores used by the switch's own processes, by the traffic applications (the soft "
        "interrupts that ran in their time are theirs), and by other soft interrupts. An "
        "in-kernel switch has no process of its own: its work is inside the other two. A polling "
        "switch uses its whole core at any load.",
        [_cpu(title, members) for title, members in facets(measured, None)],
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
    """Cores used by neither the switch nor the applications, so that the whole bar is as long as
    all cores used: most soft interrupts run in the applications' time."""
    if cpu.total_cores is None:
        return cpu.softirq_cores or 0.0
    return max(0.0, cpu.total_cores - (cpu.switch_cores or 0.0) - cpu.applications_cores)


def _in_words(cpu: CpuSummary) -> str:
    parts = ((cpu.total_cores, "cores"), (cpu.more.get("ns_per_frame"), "ns a frame"))
    return ", ".join(f"{number(one)} {unit}" for one, unit in parts if one is not None)
