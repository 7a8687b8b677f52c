"""Round trips over a row's repetitions, from their records: figures, percentiles and curves.

The histograms of the repetitions are read here and merged once. Plots of all times use the merged
histogram in the summary."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from switchmark.results.columns import Column
from switchmark.results.groups import Group, Records
from switchmark.results.run_directory import open_run
from switchmark.statistics.histogram import PERCENTILES, Histogram, PercentileCurve
from switchmark.statistics.means import Estimate, of_all
from switchmark.statistics.order_statistics import Bounds, by_median, percentile_intervals_ns

_HISTOGRAMS = (
    Column("trial_id", "/trial_id"),
    Column("actual", "/latency/histogram"),
    Column("intended", "/latency/intended_histogram"),
)


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Round-trip times; percentiles come from the repetitions' merged histogram."""

    count: int
    lost: int
    min_ns: float
    max_ns: float
    mean_ns: Estimate
    p50_ns: Estimate  # mean of the medians of the repetitions
    p99_ns: Estimate
    median_ns: Estimate  # median of the medians of the repetitions (`by_median`)
    median_p99_ns: Estimate  # median of the 99th percentiles of the repetitions
    all_mean_ns: float  # mean of all samples, like the percentiles
    stdev_ns: float
    percentiles_ns: dict[str, float]
    intervals_ns: dict[str, Bounds]  # 95 % intervals of the percentiles; empty: not recorded
    intended_mean_ns: float | None
    intended_stdev_ns: float | None
    intended_percentiles_ns: dict[str, float]  # empty: unknown
    intended_intervals_ns: dict[str, Bounds]
    curve: PercentileCurve | None  # curve of all samples, if requested
    intended_curve: PercentileCurve | None
    times: Histogram | None  # all samples, if curves were requested


def summarise_latency(
    run_directory: Path, groups: Sequence[Group], *, with_curves: bool
) -> Iterator[LatencySummary | None]:
    """Summarise the round trips of each group; None for a group without them. Curves need much
    memory, so they are kept only if requested.

    Raises ValueError if samples were lost in merging."""
    timed = [group.finished if group.finished.has("rtt_mean_ns") else None for group in groups]
    fewest = 1 if with_curves else 2  # the record of a single repetition holds the percentiles
    merged = [group.column("trial_id") if group and len(group) >= fewest else () for group in timed]
    histograms = _read(run_directory, [trial_id for ids in merged for trial_id in ids])
    for records, ids in zip(timed, merged, strict=True):
        if records is None:
            yield None
            continue
        actual, intended = zip(*map(histograms.__getitem__, ids), strict=True) if ids else ((), ())
        sent = _DelayTail.of(records, "rtt", actual, max(records.column("rtt_max_ns")), with_curves)
        due = _DelayTail.of(records, "intended_rtt", intended, math.inf, with_curves)
        yield _summary(records, sent, due)


def _read(run_directory: Path, trial_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
    """Return the texts of the histograms in these records, for the actual and the intended send
    time."""
    if not trial_ids:
        return {}
    # Loaded late, because `run` needs rows much earlier.
    from switchmark.results.query import select

    run = open_run(run_directory)
    rows = select([str(run.path_of(trial_id)) for trial_id in trial_ids], _HISTOGRAMS).iter_rows(
        named=True
    )
    return {row["trial_id"]: (row["actual"], row["intended"]) for row in rows}


@dataclass(frozen=True, slots=True)
class _DelayTail:
    """Percentiles of delays from one of the two send times, with their intervals."""

    percentiles_ns: dict[str, float]
    intervals_ns: dict[str, Bounds]
    curve: PercentileCurve | None = None
    times: Histogram | None = None

    @classmethod
    def of(
        cls,
        records: Records,
        prefix: str,
        texts: Sequence[str | None],
        max_ns: float,
        with_curves: bool,
    ) -> _DelayTail:
        """Merge the histograms in these texts; empty if a record lacks them or if they were not
        read. The percentiles of a single repetition are those in its record."""
        known = [Histogram(text) for text in texts if text is not None]
        merged = Histogram.merged(known) if known and len(known) == len(texts) else None
        drawn = (merged.curve(), merged) if merged and with_curves else (None, None)
        if len(records) == 1:
            return cls(*_of_one(records, prefix), *drawn)
        if merged is None:
            return cls({}, {})
        intervals = percentile_intervals_ns(merged, max_ns)
        return cls(merged.percentiles_ns(max_ns=max_ns), intervals, *drawn)


def _of_one(record: Records, prefix: str) -> tuple[dict[str, float], dict[str, Bounds]]:
    """Return the percentiles in the record of the only repetition, and their intervals."""
    values = {name: record.first(f"{prefix}_p{name}_ns") for name in PERCENTILES}
    if None in values.values():  # the generator did not report them
        return {}, {}
    return values, json.loads(record.first(f"{prefix}_intervals") or "{}")


def _summary(records: Records, sent: _DelayTail, due: _DelayTail) -> LatencySummary:
    all_mean_ns, stdev_ns = _whole(records, "rtt")
    intended_mean_ns, intended_stdev_ns = _whole(records, "intended_rtt")
    mean_ns = records.over("rtt_mean_ns")
    return LatencySummary(
        count=sum(records.column("rtt_count")),
        lost=sum(records.column("rtt_lost")),
        min_ns=min(records.column("rtt_min_ns")),
        max_ns=max(records.column("rtt_max_ns")),
        mean_ns=mean_ns,
        p50_ns=(p50_ns := records.over("rtt_p50_ns")),
        p99_ns=(p99_ns := records.over("rtt_p99_ns")),
        median_ns=by_median(p50_ns, records.level),
        median_p99_ns=by_median(p99_ns, records.level),
        all_mean_ns=mean_ns.mean if all_mean_ns is None else all_mean_ns,
        stdev_ns=stdev_ns or 0.0,
        percentiles_ns=sent.percentiles_ns,
        intervals_ns=sent.intervals_ns,
        intended_mean_ns=intended_mean_ns,
        intended_stdev_ns=intended_stdev_ns,
        intended_percentiles_ns=due.percentiles_ns,
        intended_intervals_ns=due.intervals_ns,
        curve=sent.curve,
        intended_curve=due.curve,
        times=sent.times,
    )


def _whole(records: Records, prefix: str) -> tuple[float | None, float | None]:
    """Return mean and standard deviation of all samples of all records; None if a record lacks
    them."""
    places = ("rtt_count", f"{prefix}_mean_ns", f"{prefix}_stdev_ns")
    if not all(records.has(place) for place in places):
        return None, None
    return of_all(zip(*(records.column(place) for place in places), strict=True))
