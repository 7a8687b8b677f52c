"""The stages of an item's run: its first blocks, and the blocks that a second stage adds.

The run begins with the repetitions of the first stage, and its resumption has the repetitions of
both in its settings. A second stage only counts when it is over, since otherwise there would be
more interim analyses than planned (statistics/stages.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from switchmark.model.choices import MAX_REPETITIONS
from switchmark.results.query import RecordTable
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.results.summary import summarise

_KEY = "repetitions="


@dataclass(frozen=True, slots=True)
class Blocks:
    """The numbers of blocks of the stages of a run."""

    first: int
    second: int = 0  # 0: no second stage
    is_over: bool = True  # every trial of the second stage has ended


ONE_STAGE = Blocks(1)


def settings_of(run: Run, blocks: int | None = None) -> list[str]:
    """Return the settings for the resumption of the run, with this total number of blocks (None: as
    planned)."""
    first, planned = run.info.parsed_definition.repetitions, blocks or _planned(run)
    settings = list(run.info.parsed_settings.set)
    if planned == first:
        return settings
    return [*(text for text in settings if not text.startswith(_KEY)), f"{_KEY}{planned}"]


def in_stages(run: Run, table: RecordTable) -> tuple[list[SummaryRow], Blocks]:
    """Return the rows of a run, each with its rows of the stages that count, and the numbers of
    blocks."""
    rows, first = summarise(run.directory, table), run.info.parsed_definition.repetitions
    blocks = Blocks(first, _planned(run) - first)
    if not blocks.second:
        return [_with_planned(row, first) for row in rows], blocks
    at = pl.col("repetition")
    stages = [
        summarise(run.directory, replace(table, frame=table.frame.filter(condition)))
        for condition in (at < first, (at >= first) & (at < first + blocks.second))
    ]
    begun = [row for row in stages[1] if not row.is_baseline]
    if not begun or any(row.finished + row.failed < blocks.second for row in begun):
        blocks = replace(blocks, is_over=False)
        del stages[1]
    known = [{_key(row): row for row in stage} for stage in stages]
    by_row = [tuple(stage[key] for stage in known if key in stage) for key in map(_key, rows)]
    return [replace(row, stages=of) for row, of in zip(rows, by_row, strict=True)], blocks


def _with_planned(row: SummaryRow, planned: int) -> SummaryRow:
    """Return the row, with the planned number if repetitions of its first stage are missing."""
    return row if row.finished + row.failed >= planned else replace(row, planned=planned)


def _key(row: SummaryRow) -> tuple[object, ...]:
    """Return the key of a row within its run."""
    return row.trial, row.connect_mode, row.port_kind, row.io


def _planned(run: Run) -> int:
    """Return the number of blocks of both stages."""
    counts = [run.info.parsed_definition.repetitions]
    for resumption in run.resumptions():
        for setting in resumption.parsed_settings.set:
            text = setting.removeprefix(_KEY)
            if text != setting and text.isascii() and text.isdigit() and len(text) < 9:
                counts.append(min(int(text), MAX_REPETITIONS))
    return max(counts)
