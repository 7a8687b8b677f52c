"""Which pictures a report shows at once, and which it folds away."""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.model.choices import Dimension
from switchmark.report import words
from switchmark.report.axes import x_axis
from switchmark.report.cores_used import cpu_panels
from switchmark.report.cost import steps_panels
from switchmark.report.distributions import distribution_panels
from switchmark.report.figures import Look, Panels
from switchmark.report.latency import cumulative_panels, curve_panels, spread_panels
from switchmark.report.machines import machines_panels
from switchmark.report.ratios import ratio_panels
from switchmark.report.three_loads import loads_panels
from switchmark.report.throughput import throughput_panels
from switchmark.results.answer import PointAnswer
from switchmark.results.contenders import in_order_of
from switchmark.results.over_machines import run_over_machines
from switchmark.results.record import Record
from switchmark.results.rows import SummaryRow
from switchmark.results.store import Run


def open_pictures(
    rows: list[SummaryRow],
    answered: list[PointAnswer],
    records: list[Record],
    look: dict[str, Look],
) -> list[Panels]:
    """The pictures that every reader sees: ratios, what was swept, the trials, the cores used."""
    throughput = words.of_dimension(rows, Dimension.THROUGHPUT)
    measured = [row for row in rows if row.finished and row.method is None]
    panels = [ratio_panels(answered, look)]
    if _is_swept(throughput, answered):
        panels.append(throughput_panels(throughput, look))
    panels.append(distribution_panels(answered, measured, records, look))
    panels.append(cpu_panels(throughput))
    return [panel for panel in panels if panel.figures]


def machine_pictures(
    run: Run, rows: list[SummaryRow], answered: list[PointAnswer]
) -> Iterator[Panels]:
    """The ratios over machines, where the run was measured on more than one."""
    names = {row.trial.id: row.contender for row in rows if not row.is_baseline}
    wanted = list(dict.fromkeys(one.metric for one in answered if one.decides))
    known = sorted(dict.fromkeys(names.values()), key=in_order_of(run.info.definition))
    found = run_over_machines(run, names, known, wanted)
    if found:
        yield machines_panels(found, answered[0].prove)


def folded_pictures(
    rows: list[SummaryRow], answered: list[PointAnswer], look: dict[str, Look]
) -> list[Panels]:
    """The pictures that a reader unfolds: the three loads, round trips, the cost in steps."""
    throughput = words.of_dimension(rows, Dimension.THROUGHPUT)
    latency = words.of_dimension(rows, Dimension.LATENCY)
    panels = [
        loads_panels(throughput, look),
        spread_panels(latency, look),
        curve_panels(latency, look),
        cumulative_panels(latency, look),
        steps_panels(throughput, look),
    ]
    if not _is_swept(throughput, answered):
        panels.insert(0, throughput_panels(throughput, look))
    return [panel for panel in panels if panel.figures]


def _is_swept(throughput: list[SummaryRow], answered: list[PointAnswer]) -> bool:
    """Whether throughput is shown at once: it was swept, or there is no ratio to show."""
    return x_axis(throughput) is not None or not answered
