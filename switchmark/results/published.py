"""Published figures beside measured ones: the same statistic, on the same layer, over the same way.

A figure that was measured otherwise than it was published is left out: a median does not stand in
for a mean, nor a round trip for one way.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from switchmark.model.campaign import Published
from switchmark.model.rates import L1_OVERHEAD_BYTES
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate
from switchmark.statistics.order_statistics import by_median


def published_beside(
    rows: Sequence[SummaryRow], published: Sequence[Published]
) -> list[tuple[Published, SummaryRow | None, float | None]]:
    """Each published figure with the measured row that it matches and the measured value in its
    unit; without a row where nothing of the kind was measured."""
    beside: list[tuple[Published, SummaryRow | None, float | None]] = []
    for figure in published:
        matching = [
            (row, found.mean)
            for row in rows
            if not row.is_baseline and figure.matches(row.trial)
            if (found := measured(row, figure)) is not None
        ]
        beside += [(figure, row, value) for row, value in matching] or [(figure, None, None)]
    return beside


def measured(row: SummaryRow, figure: Published) -> Estimate | None:
    """The row's figure of this kind, in the published figure's unit; None: not measured."""
    if not row.finished:
        return None
    if figure.is_time:
        is_trip = figure.path == "round-trip"
        found = _round_trip(row, figure.of) if is_trip else _one_way(row, figure)
        return found and _scaled(found, 1.0 if figure.unit == "ns" else 1e-3)
    load = _load(row, figure)
    if load is None:
        return None
    both = figure.direction == "each" and row.trial.bidirectional
    return _statistic(_scaled(load, 0.5 if both else 1.0), figure.of)


def _load(row: SummaryRow, figure: Published) -> Estimate | None:
    """The load in frames or bits per second: a run's, or the one that a method found."""
    if row.throughput is not None:
        loads = row.throughput
        if figure.unit == "pps":
            return loads.forwarded_pps
        return loads.forwarded_l1_bps if figure.layer == "L1" else loads.forwarded_l2_bps
    found = row.method.figure(row.method.headline) if row.method is not None else None
    if found is None or found.unit != "pps":
        return None
    extra = L1_OVERHEAD_BYTES if figure.layer == "L1" else 0
    bits = 8 * (row.trial.frame_sizes.mean + extra)
    return found.value if figure.unit == "pps" else _scaled(found.value, bits)


def _one_way(row: SummaryRow, figure: Published) -> Estimate | None:
    statistic = "median" if figure.of == "p50" else figure.of
    name = f"one-way {statistic}" + ("" if figure.at is None else f" at {figure.at:g} R+")
    found = row.method.figure(name) if row.method is not None else None
    return None if found is None else found.value


def _round_trip(row: SummaryRow, statistic: str) -> Estimate | None:
    if row.latency is None:
        return None
    times = row.latency
    over_repetitions = {"mean": times.mean_ns, "median": times.median_ns}
    if statistic in over_repetitions:
        return over_repetitions[statistic]
    of_all = {"min": times.min_ns, "max": times.max_ns, "stdev": times.stdev_ns}
    value = of_all.get(statistic, times.percentiles_ns.get(statistic.removeprefix("p")))
    return None if value is None else _single(value)


def _statistic(found: Estimate, statistic: str) -> Estimate | None:
    """A statistic of the repetitions of a load."""
    match statistic:
        case "mean":
            return found
        case "median":
            return by_median(found)
        case "stdev":
            return None if found.stdev is None else _single(found.stdev)
        case "min" | "max":
            return _single((min if statistic == "min" else max)(found.values or (found.mean,)))
    if len(found.values) < 2:
        return None
    cuts = statistics.quantiles(found.values, n=1000, method="inclusive")
    place = round(10 * float(statistic.removeprefix("p"))) - 1
    return _single(cuts[min(max(0, place), len(cuts) - 1)])


def _single(value: float) -> Estimate:
    return Estimate(value, value, 1, values=(value,))


def _scaled(found: Estimate, factor: float) -> Estimate:
    return Estimate(
        found.mean * factor,
        found.median * factor,
        found.count,
        None if found.stdev is None else found.stdev * factor,
        None if found.low is None else found.low * factor,
        None if found.high is None else found.high * factor,
        tuple(value * factor for value in found.values),
    )
