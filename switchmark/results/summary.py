"""The summary of a run: repetitions combined, with confidence intervals, trust marks and limits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from switchmark.errors import SwitchmarkError
from switchmark.model.choices import Dimension
from switchmark.results.contenders import (
    with_contenders,
    with_mixed_grants,
    with_mixed_modes,
    with_page_sizes_apart,
)
from switchmark.results.documents import CorruptResultError
from switchmark.results.groups import Group, groups
from switchmark.results.latency_summary import summarise_latency
from switchmark.results.query import RecordTable, from_utf8, read_table, refused_files
from switchmark.results.ranking import rank
from switchmark.results.rows import SummaryRow, draw_together
from switchmark.results.run_directory import open_run
from switchmark.statistics.boundaries import StoppingRule

_UNEXPECTED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


def summary(run_directory: Path) -> list[SummaryRow]:
    """Return the summary rows of a run: see `summarise`."""
    return summarise(run_directory, read_table(run_directory))


def summarise(
    run_directory: Path, table: RecordTable, *, with_curves: bool = False
) -> list[SummaryRow]:
    """Group the table's repetitions and summarise each group; `table.problems` names refused files.
    Raises CorruptResultError for an invalid record in a table that was too large to check each
    record."""
    rule = _stopping_rule(run_directory)
    rows: list[SummaryRow] = []
    for slice_groups in groups(table.frame):
        if rule is not None:
            _set_levels(slice_groups, rule)
        times = summarise_latency(run_directory, slice_groups, with_curves=with_curves)
        for group in slice_groups:
            try:
                rows.append(draw_together(group, next(times)))
            except _UNEXPECTED as error:
                raise _explained(group, error) from error
    rows = with_contenders(with_mixed_grants(with_mixed_modes(with_page_sizes_apart(rows))))
    return sorted(rows, key=_order)


def _explained(group: Group, error: Exception) -> Exception:
    """Return the error, or the problem of a record in the group that caused it. A large table is
    read without a check of each record (query.py)."""
    files = [file for records in (group.finished, group.failed) for file in records.column("file")]
    line = next(iter(refused_files(map(from_utf8, files)).values()), None)
    return error if line is None else CorruptResultError(line)


def _stopping_rule(run_directory: Path) -> StoppingRule | None:
    """Return the interim analyses of a run that repeated until its intervals were narrow
    (`until_ci`). The intervals shown are those at which it stopped."""
    try:
        definition = open_run(run_directory).info.parsed_definition
    except SwitchmarkError:  # reported when the table is read
        return None
    if definition.until_ci is None:
        return None
    return StoppingRule.after_each(definition.repetitions, definition.max_repetitions)


def _set_levels(slice_groups: Iterable[Group], rule: StoppingRule) -> None:
    for group in slice_groups:
        count = min(max(rule.analyses[0], len(group.finished)), rule.analyses[-1])
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
