"""The cores that a trial used, by who used them: the switch, the applications, soft interrupts."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from switchmark.report import words
from switchmark.report.drawn_rows import bar_label, facets, ranked
from switchmark.report.figures import BAR, Drawing, Panels, axis, row_axis, row_names, rows_height
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
    parts = (
        ("switch", "@part0", "", [row.cpu.switch_cores or 0 for row in drawn if row.cpu]),
        ("applications", "@part1", "/",
         [row.cpu.applications_cores for row in drawn if row.cpu]),
        ("soft interrupts beside them", "@part2", ".",
         [_beside(row.cpu) for row in drawn if row.cpu]),
    )  # fmt: skip
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "x": values,
            "y": list(range(len(drawn))),
            "text": labels,
            "textposition": "none",
            "width": BAR,
            "marker": {"color": color, "pattern": {"shape": pattern, "size": 6}},
            "hovertemplate": Markup("%{{text}}: {} %{{x:.2f}} cores<extra></extra>").format(name),
        }
        for name, color, pattern, values in parts
    ]
    layout = {
        "barmode": "stack",
        "xaxis": axis("cores used", rangemode="tozero"),
        "yaxis": row_axis(len(drawn)),
        "annotations": row_names(
            [(bar_label(row), _cpu_told(row.cpu)) for row in drawn if row.cpu]
        ),
        "legend": {
            "orientation": "h",
            "y": 1.0,
            "yanchor": "bottom",
            "x": 0,
            "traceorder": "normal",
        },
    }
    return Drawing(title, traces, layout, rows_height(len(drawn), legend=True))


def _beside(cpu: CpuSummary) -> float:
    """Cores used by neither the switch nor the applications, so that the whole bar is as long as
    all cores used: most soft interrupts run in the applications' time."""
    total = cpu.total_cores
    if total is None:
        return cpu.softirq_cores or 0.0
    return max(0.0, total - (cpu.switch_cores or 0.0) - cpu.applications_cores)


def _cpu_told(cpu: CpuSummary) -> str:
    cores = "" if cpu.total_cores is None else f"{words.number(cpu.total_cores)} cores"
    each = cpu.more.get("ns_per_frame")
    told = "" if each is None else f"{words.number(each)} ns a frame"
    return ", ".join(filter(None, [cores, told]))
