"""What a run found: repetitions drawn together, with confidence, trust marks and limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from switchmark.campaign.model import Dimension
from switchmark.results.contenders import with_contenders, with_mixed_modes
from switchmark.results.groups import groups
from switchmark.results.histogram import merge_histograms, percentiles_ns
from switchmark.results.order_statistics import percentile_intervals_ns
from switchmark.results.query import Table, read_histograms, read_table
from switchmark.results.ranking import rank
from switchmark.results.rows import SummaryRow, draw_together

_GROUPS_A_QUERY = 200


def summary(run_directory: Path) -> list[SummaryRow]:
    """The summary rows of a run. Raises nothing for bad files: see `summarise`."""
    return summarise(run_directory, read_table(run_directory))


def summarise(run_directory: Path, table: Table) -> list[SummaryRow]:
    """Group the table's repetitions; `table.problems` tells of files that were refused."""
    rows = [draw_together(group) for group in groups(table.frame)]
    rows = _with_merged_percentiles(run_directory, rows)
    rows = with_contenders(with_mixed_modes(rows))
    return sorted(rows, key=_order)


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


def _with_merged_percentiles(run_directory: Path, rows: list[SummaryRow]) -> list[SummaryRow]:
    """Replace the percentiles of repeated latency trials by those of the merged histogram."""
    repeated = iter([i for i, row in enumerate(rows) if row.latency and row.finished > 1])
    while chunk := list(islice(repeated, _GROUPS_A_QUERY)):
        wanted = [trial_id for i in chunk for trial_id in rows[i].trial_ids]
        held = {one.trial_id: one for one in read_histograms(run_directory, wanted)}
        for i in chunk:
            latency = rows[i].latency
            assert latency is not None
            parts = [held[trial_id] for trial_id in rows[i].trial_ids]
            actual = merge_histograms(part.actual for part in parts)
            intended = merge_histograms(part.intended for part in parts)
            merged = replace(
                latency,
                percentiles_ns=percentiles_ns(actual),
                intervals_ns=percentile_intervals_ns(actual),
                intended_percentiles_ns=percentiles_ns(intended),
                intended_intervals_ns=percentile_intervals_ns(intended),
            )
            rows[i] = replace(rows[i], latency=merged)
    return rows
