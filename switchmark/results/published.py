"""Published figures beside measured ones: the same statistic, layer and path.

A figure that was measured in another way than the published one is left out: a median does not
replace a mean, and a round trip does not replace a one-way time."""

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
    """Return each published figure with each measured row that it matches, and the measured value
    in its unit; without a row if none matches."""
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
    """Return the load in frames or bits per second, from a single trial or from a search."""
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


def _statistic(load: Estimate, statistic: str) -> Estimate | None:
    """Return a statistic of the repetitions of a load."""
    match statistic:
        case "mean":
            return load
        case "median":
            return by_median(load)
        case "stdev":
            return None if load.stdev is None else _single(load.stdev)
        case "min" | "max":
            return _single((min if statistic == "min" else max)(load.values or (load.mean,)))
    if len(load.values) < 2:
        return None
    cuts = statistics.quantiles(load.values, n=1000, method="inclusive")
    place = round(10 * float(statistic.removeprefix("p"))) - 1
    return _single(cuts[min(max(0, place), len(cuts) - 1)])


def _single(value: float) -> Estimate:
    return Estimate(value, value, 1, values=(value,))


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(
        estimate.mean * factor,
        estimate.median * factor,
        estimate.count,
        None if estimate.stdev is None else estimate.stdev * factor,
        None if estimate.low is None else estimate.low * factor,
        None if estimate.high is None else estimate.high * factor,
        tuple(value * factor for value in estimate.values),
    )
