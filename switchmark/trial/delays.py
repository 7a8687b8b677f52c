"""Delays that several engines timed, merged into one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from switchmark.engine.event_parts.delays import TimedDelays
from switchmark.engine.event_parts.streams import ProbeStream
from switchmark.engine.events import Result
from switchmark.errors import TrialFailed
from switchmark.record import Latency
from switchmark.statistics.histogram import Histogram
from switchmark.statistics.means import of_all
from switchmark.statistics.order_statistics import percentile_intervals_ns
from switchmark.trial.quality import delay_variation


def timed_by(ends: Sequence[Result | ProbeStream]) -> list[TimedDelays]:
    """The delays that each end has timed. Raises `TrialFailed` where one has timed none."""
    found = [end.latency for end in ends]
    if any(one is None for one in found):
        raise TrialFailed("a traffic application timed no frames, though it was asked to")
    return [one for one in found if one is not None]


def merge_latency(
    kind: Literal["rtt", "one_way"], timed: Sequence[TimedDelays], lost: int, nothing: str
) -> Latency:
    """One distribution of the delays that several engines timed, from their merged histograms.

    Raises `TrialFailed` saying `nothing` when none of them holds a sample."""
    counted = [one for one in timed if one.count]
    if not counted:
        raise TrialFailed(f"{nothing}: there is no latency to report")
    actual = Histogram.merged(one.from_actual for one in timed)
    intended = Histogram.merged(one.from_intended for one in timed)
    mean, stdev = of_all((one.count, one.mean_ns, one.stdev_ns) for one in counted)
    late = [one.intended for one in counted]
    max_ns, late_max_ns = max(one.max_ns for one in counted), max(one.max_ns for one in late)
    late_mean, late_stdev = of_all((one.count, one.mean_ns, one.stdev_ns) for one in late)
    return Latency(
        kind=kind,
        count=sum(one.count for one in counted),
        min_ns=min(one.min_ns for one in counted),
        mean_ns=mean,
        stdev_ns=stdev,
        max_ns=max_ns,
        percentiles_ns=actual.percentiles_ns(max_ns=max_ns),
        intended_percentiles_ns=intended.percentiles_ns(max_ns=late_max_ns),
        percentile_intervals_ns=percentile_intervals_ns(actual, max_ns),
        intended_percentile_intervals_ns=percentile_intervals_ns(intended, late_max_ns),
        intended_mean_ns=late_mean,
        intended_stdev_ns=late_stdev,
        intended_max_ns=late_max_ns,
        histogram=actual,
        intended_histogram=intended,
        lost=lost,
        variation=delay_variation(timed),
    )
