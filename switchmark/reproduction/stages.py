"""The stages of an item's run: the blocks of its first pass, and those that a second stage adds.

The run is begun with the repetitions of the first stage, and goes on with those of both, in the
settings of its resumption. A second stage counts once it is over, whoever stopped it meanwhile:
figures would be looked at once more than is reckoned with, otherwise (statistics/stages.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from switchmark.model.choices import MAX_REPETITIONS, WIRE
from switchmark.results.query import RecordTable
from switchmark.results.rows import SummaryRow
from switchmark.results.store import Run
from switchmark.results.summary import summarise

_KEY = "repetitions="


@dataclass(frozen=True, slots=True)
class Blocks:
    """How many blocks the stages of a run have."""

    first: int
    second: int = 0  # 0: none is planned
    is_over: bool = True  # every trial of the second stage has ended


ONE_STAGE = Blocks(1)


def blocks_of(run: Run, table: RecordTable) -> Blocks:
    """The blocks of a run, by its settings and its records."""
    first = run.info.parsed_definition.repetitions
    second = _planned(run) - first
    if second <= 0:
        return Blocks(first)
    counts = table.frame.filter(pl.col("switch") != WIRE).group_by("repetition").len()
    trials = dict(counts.iter_rows())
    own = max((count for block, count in trials.items() if block < first), default=0)
    ended = sum(count for block, count in trials.items() if first <= block < first + second)
    return Blocks(first, second, 0 < own * second <= ended)


def settings_of(run: Run, blocks: int | None = None) -> list[str]:
    """The settings with which the run goes on, with so many blocks in all; None: as planned."""
    first, planned = run.info.parsed_definition.repetitions, blocks or _planned(run)
    given = list(run.info.parsed_settings.set)
    if planned == first:
        return given
    return [*(one for one in given if not one.startswith(_KEY)), f"{_KEY}{planned}"]


def in_stages(
    run: Run, table: RecordTable, rows: Sequence[SummaryRow], blocks: Blocks
) -> Iterator[SummaryRow]:
    """The rows, each with those of the stages that count."""
    if not blocks.second:
        yield from rows
        return
    at = pl.col("repetition")
    parts = [at < blocks.first]
    if blocks.is_over:
        parts.append((at >= blocks.first) & (at < blocks.first + blocks.second))
    stages = [
        {row.trial: row for row in summarise(run.directory, replace(table, frame=held))}
        for held in map(table.frame.filter, parts)
    ]
    for row in rows:
        own = (stage.get(row.trial) for stage in stages)
        yield replace(row, stages=tuple(one for one in own if one is not None))


def _planned(run: Run) -> int:
    """The blocks of both stages."""
    counts = [run.info.parsed_definition.repetitions]
    for resumption in run.resumptions():
        for one in resumption.parsed_settings.set:
            told = one.removeprefix(_KEY)
            if told != one and told.isascii() and told.isdigit() and len(told) < 9:
                counts.append(min(int(told), MAX_REPETITIONS))
    return max(counts)
