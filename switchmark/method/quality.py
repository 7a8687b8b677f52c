"""From the engines' results: order, delay variation, the cost of their loops, fairness."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from switchmark.results.histogram import (
    Distances,
    merge_histograms,
    percentiles_ns,
    percentiles_of_distances,
)
from switchmark.results.quality import DelayVariation, LoopCost, Reordering


def reordering(loss: Mapping[str, Any]) -> Reordering | None:
    """A receiver's `loss` as the record keeps its order; None when nothing came out of order."""
    if not loss.get("reordered") or "reordered_ratio" not in loss:
        return None
    return Reordering(
        reordered=loss["reordered"],
        ratio=loss["reordered_ratio"],
        max_extent=loss["max_reorder_extent"],
        mean_extent=loss["mean_reorder_extent"],
        max_late_ns=loss["max_late_offset_ns"],
        mean_late_ns=loss["mean_late_offset_ns"],
        n_reordered=loss["n_reordered"],
        is_lower_bound=loss["extent_is_lower_bound"],
    )


def delay_variation(latencies: Sequence[Mapping[str, Any]]) -> DelayVariation | None:
    """The engines' `latency` parts, merged; None when one does not tell.

    PDV is taken from the shortest delay of all pairs, as if they were one."""
    if not latencies or any("ipdv" not in one or "base_ns" not in one["pdv"] for one in latencies):
        return None
    parts = [one["ipdv"] for one in latencies]
    grown = merge_histograms(part["grown"] for part in parts)
    shrunk = merge_histograms(part["shrunk"] for part in parts)
    magnitude = merge_histograms(part[side] for part in parts for side in ("grown", "shrunk"))
    counted = [one for one in latencies if one["count"]]
    if not counted:
        return None
    count = sum(part["count"] for part in parts)
    shortest = min(one["min_ns"] for one in counted)
    longest = max(one["max_ns"] for one in counted)
    samples = sum(one["count"] for one in counted)
    mean = sum(one["mean_ns"] * one["count"] for one in counted) / samples
    delays = percentiles_of_distances(
        Distances(one["pdv"]["base_ns"], one["pdv"]["above"], one["pdv"]["below"])
        for one in counted
    )
    return DelayVariation(
        ipdv_count=count,
        ipdv_mean_ns=_mean(parts, "mean_ns", count),
        ipdv_mean_magnitude_ns=_mean(parts, "mean_magnitude_ns", count),
        ipdv_percentiles_ns=percentiles_ns(magnitude) if count else {},
        ipdv_grown=grown.encode().decode(),
        ipdv_shrunk=shrunk.encode().decode(),
        pdv_mean_ns=max(0.0, mean - shortest),
        pdv_percentiles_ns={
            name: max(0.0, min(value, longest) - shortest) for name, value in delays.items()
        },
    )


def _mean(parts: Sequence[Mapping[str, Any]], name: str, count: int) -> float:
    return sum(part[name] * part["count"] for part in parts) / count if count else 0.0


def loop_costs(
    runs: Iterable[tuple[str, Mapping[str, Any], Mapping[str, Any]]],
) -> dict[str, LoopCost]:
    """By role, from (role, `ready`, `result`) of every engine; those that do not tell are left
    out."""
    sums: dict[str, list[tuple[int, int, int, float]]] = defaultdict(list)
    for role, ready, result in runs:
        cycles = result.get("cycles")
        if cycles is not None:
            sums[role].append(
                (cycles["frames"], cycles["useful_ticks"], cycles["idle_ticks"], ready["tsc_hz"])
            )
    costs = {}
    for role, parts in sums.items():
        frames = sum(part[0] for part in parts)
        useful, idle = sum(part[1] for part in parts), sum(part[2] for part in parts)
        useful_s = sum(part[1] / part[3] for part in parts)
        costs[role] = LoopCost(
            frames=frames,
            useful_share=useful / (useful + idle) if useful + idle else 0.0,
            ns_per_frame=useful_s * 1e9 / frames if frames else None,
            ticks_per_frame=useful / frames if frames else None,
        )
    return costs


def jain(rates: Sequence[float]) -> float | None:
    """Jain's fairness index: 1 when all get the same, 1/n when one gets all.

    None for fewer than two, or when nobody gets anything. (R. Jain, D. Chiu, W. Hawe: A
    quantitative measure of fairness, DEC-TR-301, 1984.)"""
    squares = sum(rate * rate for rate in rates)
    if len(rates) < 2 or squares <= 0:
        return None
    return min(1.0, sum(rates) ** 2 / (len(rates) * squares))
