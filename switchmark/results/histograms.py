"""The delays of a row: every sample of its repetitions, read and merged once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from switchmark.results.columns import Column
from switchmark.results.groups import Group
from switchmark.results.query import select
from switchmark.results.store import open_run
from switchmark.statistics.histogram import Histogram

_COLUMNS = (
    Column("trial_id", "/trial_id"),
    Column("actual", "/latency/histogram"),
    Column("intended", "/latency/intended_histogram"),
)


@dataclass(frozen=True, slots=True)
class DelayHistograms:
    """Delays from the actual and from the intended send time."""

    actual: Histogram
    intended: Histogram | None  # None: who timed them does not know when requests were due


def merged_histograms(
    run_directory: Path, groups: Sequence[Group], *, single: bool
) -> Iterator[DelayHistograms | None]:
    """The delays of each group, merged over its repetitions; None where it has none, and without
    `single` where it has one repetition, whose record holds the percentiles.

    Raises ValueError where samples were lost in merging."""
    fewest = 1 if single else 2
    wanted = [
        group.finished.column("trial_id")
        if len(group.finished) >= fewest and group.finished.has("rtt_mean_ns")
        else ()
        for group in groups
    ]
    run = open_run(run_directory)
    paths = [str(run.path_of(trial_id)) for ids in wanted for trial_id in ids]
    rows = select(paths, _COLUMNS).iter_rows(named=True) if paths else ()
    held = {row["trial_id"]: (row["actual"], row["intended"]) for row in rows}
    for ids in wanted:
        yield _merged([held[trial_id] for trial_id in ids]) if ids else None


def _merged(parts: Sequence[tuple[str, str | None]]) -> DelayHistograms:
    late = [Histogram(intended) for _, intended in parts if intended is not None]
    return DelayHistograms(
        Histogram.merged(Histogram(actual) for actual, _ in parts),
        Histogram.merged(late) if len(late) == len(parts) else None,
    )
