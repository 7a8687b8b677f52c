"""The pictures of a report: those that it shows at once, and those that it folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from switchmark.model.campaign import Published
from switchmark.model.choices import Dimension
from switchmark.record import Record
from switchmark.report import words
from switchmark.report.axes import x_axis
from switchmark.report.cost import cpu_panels, steps_panels
from switchmark.report.distributions import distribution_panels
from switchmark.report.figures import Drawing, Look, Panels
from switchmark.report.function_cost import function_cost_panels
from switchmark.report.latency import cumulative_panels, curve_panels, spread_panels
from switchmark.report.machines import machines_panels
from switchmark.report.method_pictures import (
    load_panels,
    r_plus_times_panels,
    scatter_panels,
    soak_panels,
)
from switchmark.report.published_bars import published_panels
from switchmark.report.ratios import ratio_panels
from switchmark.report.swept_times import swept_cumulative_panels, swept_times_panels
from switchmark.report.throughput import loads_panels, throughput_panels
from switchmark.report.transfers import transfer_panels
from switchmark.results.answer import PointAnswer
from switchmark.results.contenders import in_order_of
from switchmark.results.function_share import shares_of
from switchmark.results.over_machines import run_over_machines
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.statistics.histogram import Histogram


def open_pictures(
    rows: list[SummaryRow],
    answered: list[PointAnswer],
    records: list[Record],
    look: dict[str, Look],
) -> list[Panels]:
    """Return the pictures that are shown at once: ratios, swept parameters, trials, cores used."""
    throughput, transfers = words.of_frames(rows), words.of_transfers(rows)
    measured = [row for row in rows if row.finished and row.method is None]
    panels = [ratio_panels(answered, look)]
    if _is_swept(throughput, answered):
        panels.append(throughput_panels(throughput, look))
    if _is_swept(transfers, answered):
        panels += transfer_panels(transfers, look)
    panels.append(distribution_panels(answered, measured, records, look))
    panels.append(cpu_panels(throughput))
    return [panel for panel in panels if panel.figures]


def machine_pictures(
    run: Run, rows: list[SummaryRow], answered: list[PointAnswer]
) -> Iterator[Panels]:
    """Return the ratios over machines, if the run was measured on several machines."""
    names = {row.trial.id: row.contender for row in rows if not row.is_baseline}
    metrics = list(dict.fromkeys(one.metric for one in answered if one.decides))
    known = sorted(dict.fromkeys(names.values()), key=in_order_of(run.info.definition))
    found = run_over_machines(run, names, known, metrics)
    if found:
        yield machines_panels(found, answered[0].prove)


def function_pictures(
    run: Run, rows: Sequence[SummaryRow], look: dict[str, Look]
) -> Iterator[Panels]:
    """Return the cost of network functions over their scale, if the run has their baselines."""
    panels = function_cost_panels(shares_of(run, rows), look)
    if panels.figures:
        yield panels


@dataclass(frozen=True, slots=True)
class PaperPictures:
    """The pictures of papers: those that are the purpose of the run, and others."""

    main: tuple[Panels, ...]
    others: tuple[Panels, ...]

    @property
    def drawings(self) -> Iterator[tuple[str, Drawing]]:
        """Every drawing, with the heading over it."""
        for panel in (*self.main, *self.others):
            for drawing in (*panel.figures, *panel.folded):
                yield panel.heading, drawing


def paper_pictures(
    rows: Sequence[SummaryRow],
    records: Iterable[Record],
    published: Sequence[Published],
    look: dict[str, Look],
    times: Callable[[SummaryRow], Histogram | None],
) -> PaperPictures:
    """Return the pictures for the page, files and notebooks: times over swept parameters, results
    of methods, published and measured values, CPU against throughput. `times` returns all times of
    a row."""
    done = [row for row in rows if row.finished]
    method_records = [one for one in records if one.method is not None]
    panels = [
        published_panels(done, published, look),
        swept_times_panels(done, look),
        load_panels(done, method_records, look),
        soak_panels(done, method_records, look),
        r_plus_times_panels(done, look),
        scatter_panels(done, look),
    ]
    others = [
        swept_cumulative_panels(done, times),
        steps_panels(words.of_frames(done), look),
    ]
    return PaperPictures(
        tuple(panel for panel in panels if panel.figures),
        tuple(panel for panel in others if panel.figures),
    )


def folded_pictures(
    rows: list[SummaryRow], answered: list[PointAnswer], look: dict[str, Look]
) -> list[Panels]:
    """Return the folded pictures: the three loads, round trips."""
    throughput, transfers = words.of_frames(rows), words.of_transfers(rows)
    latency = words.of_dimension(rows, Dimension.LATENCY)
    panels = [
        loads_panels(throughput, look),
        spread_panels(latency, look),
        curve_panels(latency, look),
        cumulative_panels(latency, look),
    ]
    if not _is_swept(throughput, answered):
        panels.insert(0, throughput_panels(throughput, look))
    if not _is_swept(transfers, answered):
        panels = [*transfer_panels(transfers, look), *panels]
    return [panel for panel in panels if panel.figures]


def _is_swept(throughput: list[SummaryRow], answered: list[PointAnswer]) -> bool:
    """Return True if throughput is shown at once: it was swept, or there is no ratio to show."""
    return x_axis(throughput) is not None or all(answer.untested for answer in answered)
