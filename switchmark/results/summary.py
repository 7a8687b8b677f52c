"""The summary of a run: repetitions combined, with confidence intervals, trust marks and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from switchmark.errors import SwitchmarkError
from switchmark.model.choices import Dimension
from switchmark.results.contenders import with_contenders, with_mixed_modes
from switchmark.results.groups import Group, groups
from switchmark.results.query import RecordTable, read_histograms, read_table
from switchmark.results.ranking import rank
from switchmark.results.rows import SummaryRow, draw_together
from switchmark.results.store import open_run
from switchmark.statistics.boundaries import StoppingRule
from switchmark.statistics.histogram import DelayHistograms


def summary(run_directory: Path) -> list[SummaryRow]:
    """The summary rows of a run. Bad files raise nothing: see `summarise`."""
    return summarise(run_directory, read_table(run_directory))


def summarise(
    run_directory: Path, table: RecordTable, *, with_curves: bool = False
) -> list[SummaryRow]:
    """Group the table's repetitions and summarise each group; `table.problems` names files that
    were refused."""
    drawn_together = partial(draw_together, with_curves=with_curves)
    rule = _stopping_rule(run_directory)
    rows: list[SummaryRow] = []
    for drawn in groups(table.frame):
        if rule is not None:
            _set_levels(drawn, rule)
        rows += map(drawn_together, drawn, _merged(run_directory, drawn, with_curves))
    rows = with_contenders(with_mixed_modes(rows))
    return sorted(rows, key=_order)


def _stopping_rule(run_directory: Path) -> StoppingRule | None:
    """The looks of a run that repeated until its intervals were narrow (`until_ci`). The intervals
    shown are those at which it stopped."""
    try:
        asked = open_run(run_directory).info.asked
    except SwitchmarkError:  # told where the table is read
        return None
    if asked.until_ci is None:
        return None
    return StoppingRule.after_each(asked.repetitions, asked.max_repetitions)


def _set_levels(drawn: Iterable[Group], rule: StoppingRule) -> None:
    for group in drawn:
        count = min(max(rule.looks[0], len(group.finished)), rule.looks[-1])
        group.finished.level = rule.level_at(count)


def _order(row: SummaryRow) -> tuple[Any, ...]:
    trial = row.trial
    return (
        trial.dimension != Dimension.THROUGHPUT,
        trial.packet_size_bytes,
        trial.pairs,
        trial.rate_pps or float("inf"),
        trial.burst,
        str(row.point),
        row.is_baseline,
        rank(row) if row.finished else float("inf"),
        row.contender,
    )


def _merged(
    run_directory: Path, drawn: Sequence[Group], with_curves: bool
) -> Iterator[DelayHistograms | None]:
    """The histograms of each group, merged over its repetitions; None for a single one without a
    curve, whose record has the percentiles."""
    wanted = [
        group.finished.column("trial_id")
        if len(group.finished) > (0 if with_curves else 1) and group.finished.has("rtt_mean_ns")
        else ()
        for group in drawn
    ]
    asked = [trial_id for ids in wanted for trial_id in ids]
    held = dict(read_histograms(run_directory, asked)) if asked else {}
    for ids in wanted:
        yield DelayHistograms.merged([held[trial_id] for trial_id in ids]) if ids else None
