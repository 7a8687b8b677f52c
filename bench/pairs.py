"""The ratio of two groups of records by the pairs of their blocks, like `switchmark compare`,
whatever property distinguishes the groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from switchmark.record import Record
from switchmark.results.blocks import as_block_trials, observe
from switchmark.statistics.order_statistics import typical
from switchmark.statistics.paired import PairedRatio, pairs_of, ratio_of
from switchmark.statistics.states import state_figures


def paired(
    groups: Mapping[str, Sequence[Record]], over: str, under: str
) -> tuple[PairedRatio | None, dict[str, float]]:
    """Return the ratio of the figures of `over` to those of `under`, and the typical figure of each
    group; None for fewer than five pairs."""
    block_records = [
        replace(seen, part=0, trial=seen.trial.changed({"contender": name}))
        for name, records in groups.items()
        for seen in map(observe, records)
    ]
    (metric,) = {metric for one in block_records for metric in one.figures}
    trials = as_block_trials(block_records, metric)
    ids = {one.trial.contender: one.contender for one in block_records}
    ratio = ratio_of(pairs_of(trials, state_figures(trials), ids[over], ids[under]))
    figures = {
        name: typical([one.figure for one in trials if one.contender == contender and one.figure])
        for name, contender in ids.items()
    }
    return ratio, figures
