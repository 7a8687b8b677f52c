"""The stages of an item's run: the blocks of its first pass, and those that a second stage adds.

The run is begun with the repetitions of the first stage, and goes on with those of both, in the
settings of its resumption. A second stage counts once it is over, whoever stopped it meanwhile:
figures would be looked at once more than is reckoned with, otherwise (statistics/stages.py).
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
    """How many blocks the stages of a run have."""

    first: int
    second: int = 0  # 0: none is planned
    is_over: bool = True  # every trial of the second stage has ended


ONE_STAGE = Blocks(1)


def settings_of(run: Run, blocks: int | None = None) -> list[str]:
    """The settings with which the run goes on, with so many blocks in all; None: as planned."""
    first, planned = run.info.parsed_definition.repetitions, blocks or _planned(run)
    given = list(run.info.parsed_settings.set)
    if planned == first:
        return given
    return [*(one for one in given if not one.startswith(_KEY)), f"{_KEY}{planned}"]


def in_stages(run: Run, table: RecordTable) -> tuple[list[SummaryRow], Blocks]:
    """The rows of a run, each with those of the stages that count, and how many blocks these
    have."""
    rows, first = summarise(run.directory, table), run.info.parsed_definition.repetitions
    blocks = Blocks(first, _planned(run) - first)
    if not blocks.second:
        return [_so_far(row, first) for row in rows], blocks
    at = pl.col("repetition")
    stages = [
        summarise(run.directory, replace(table, frame=table.frame.filter(held)))
        for held in (at < first, (at >= first) & (at < first + blocks.second))
    ]
    begun = [row for row in stages[1] if not row.is_baseline]
    if not begun or any(row.finished + row.failed < blocks.second for row in begun):
        blocks = replace(blocks, is_over=False)
        del stages[1]
    known = [{_key(row): row for row in stage} for stage in stages]
    told = [tuple(one[key] for one in known if key in one) for key in map(_key, rows)]
    return [replace(row, stages=one) for row, one in zip(rows, told, strict=True)], blocks


def _so_far(row: SummaryRow, planned: int) -> SummaryRow:
    """The row, told apart where repetitions of its first stage lack."""
    return row if row.finished + row.failed >= planned else replace(row, planned=planned)


def _key(row: SummaryRow) -> tuple[object, ...]:
    """What tells the rows of a run apart: what was asked, and what was done."""
    return row.trial, row.connect_mode, row.port_kind, row.io


def _planned(run: Run) -> int:
    """The blocks of both stages."""
    counts = [run.info.parsed_definition.repetitions]
    for resumption in run.resumptions():
        for one in resumption.parsed_settings.set:
            told = one.removeprefix(_KEY)
            if told != one and told.isascii() and told.isdigit() and len(told) < 9:
                counts.append(min(int(told), MAX_REPETITIONS))
    return max(counts)
