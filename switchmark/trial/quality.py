"""Order, delay variation, the cost of the loops and fairness, from the engines' results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from switchmark.engine.events import Loss, TimedDelays
from switchmark.engine.process import EngineProcess
from switchmark.record.quality import DelayVariation, LoopCost, Reordering
from switchmark.statistics.histogram import Distances, Histogram, percentiles_of_distances


def reordering(loss: Loss) -> Reordering | None:
    """The order of a receiver's frames as the record keeps it; None when all came in order."""
    if not loss.reordered:
        return None
    return Reordering(
        reordered=loss.reordered,
        ratio=loss.reordered_ratio,
        max_extent=loss.max_reorder_extent,
        mean_extent=loss.mean_reorder_extent,
        max_late_ns=loss.max_late_offset_ns,
        mean_late_ns=loss.mean_late_offset_ns,
        n_reordered=loss.n_reordered.as_printed(),
        is_lower_bound=loss.extent_is_lower_bound,
    )


def delay_variation(timed: Sequence[TimedDelays]) -> DelayVariation | None:
    """The delay variation of all engines, merged; None where no frame arrived.

    PDV is taken from the shortest delay of all pairs, as if they were one."""
    counted = [one for one in timed if one.count]
    if not counted:
        return None
    parts = [one.ipdv for one in timed]
    grown = Histogram.merged(part.grown for part in parts)
    shrunk = Histogram.merged(part.shrunk for part in parts)
    count = sum(part.count for part in parts)
    shortest = min(one.min_ns for one in counted)
    longest = max(one.max_ns for one in counted)
    samples = sum(one.count for one in counted)
    mean = sum(one.mean_ns * one.count for one in counted) / samples
    delays = percentiles_of_distances(
        Distances(one.pdv.base_ns, one.pdv.above, one.pdv.below) for one in counted
    )
    signed_sum = sum(part.mean_ns * part.count for part in parts)
    magnitude_sum = sum(part.mean_magnitude_ns * part.count for part in parts)
    magnitudes = Histogram.merged([grown, shrunk])
    return DelayVariation(
        ipdv_count=count,
        ipdv_mean_ns=signed_sum / count if count else 0.0,
        ipdv_mean_magnitude_ns=magnitude_sum / count if count else 0.0,
        ipdv_percentiles_ns=magnitudes.percentiles_ns() if count else {},
        ipdv_grown=grown,
        ipdv_shrunk=shrunk,
        pdv_mean_ns=max(0.0, mean - shortest),
        pdv_percentiles_ns={
            name: max(0.0, min(value, longest) - shortest) for name, value in delays.items()
        },
    )


def loop_costs(engines: Iterable[EngineProcess]) -> dict[str, LoopCost]:
    """The cost of the loop by role, of every engine whose trial has ended."""
    roles: dict[str, list[EngineProcess]] = defaultdict(list)
    for engine in engines:
        if engine.has_result:
            roles[engine.role].append(engine)
    return {role: _loop_cost(own) for role, own in roles.items()}


def _loop_cost(engines: Sequence[EngineProcess]) -> LoopCost:
    parts = [(engine.result.cycles, engine.tick_hz) for engine in engines]
    frames = sum(cycles.frames for cycles, _ in parts)
    useful = sum(cycles.useful_ticks for cycles, _ in parts)
    idle = sum(cycles.idle_ticks for cycles, _ in parts)
    useful_s = sum(cycles.useful_ticks / tick_hz for cycles, tick_hz in parts)
    return LoopCost(
        frames=frames,
        useful_share=useful / (useful + idle) if useful + idle else 0.0,
        ns_per_frame=useful_s * 1e9 / frames if frames else None,
        ticks_per_frame=useful / frames if frames else None,
    )


def jain(rates: Sequence[float]) -> float | None:
    """Jain's fairness index: 1 when all get the same, 1/n when one gets all.

    None for fewer than two, or when nobody gets anything. (R. Jain, D. Chiu, W. Hawe: A
    quantitative measure of fairness, DEC-TR-301, 1984.)"""
    squares = sum(rate * rate for rate in rates)
    if len(rates) < 2 or squares <= 0:
        return None
    return min(1.0, sum(rates) ** 2 / (len(rates) * squares))
