"""Ranks the contenders at each point and says by how much they differ; valid rows only, tested
statistically."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.model.parameters import load_of
from switchmark.record.page_sizes import are_compatible
from switchmark.results.points import Point
from switchmark.results.rows import SummaryRow
from switchmark.statistics.comparison import Difference, compare_with_best
from switchmark.statistics.means import Estimate


@dataclass(frozen=True, slots=True)
class Comparison:
    """The contenders at one point, the best first."""

    point: Point
    best: SummaryRow
    others: tuple[tuple[SummaryRow, Difference], ...]
    left_out: tuple[SummaryRow, ...]  # not valid, so not ranked
    baseline: SummaryRow | None  # of the best one's port kind


def compare(rows: Sequence[SummaryRow]) -> list[Comparison]:
    """Rank the valid contenders of every point and test each against the best."""
    points: dict[Point, list[SummaryRow]] = defaultdict(list)
    for row in rows:
        if row.finished and row.method is None:  # figures of methods are no means of runs
            points[row.point].append(row)
    comparisons = []
    for point, members in points.items():
        switches = [row for row in members if not row.is_baseline and not row.is_known_truth]
        ranked = sorted((row for row in switches if row.valid), key=rank)
        if not ranked:
            continue
        best, others = ranked[0], ranked[1:]
        differences = compare_with_best(headline(best), [headline(row) for row in others])
        comparisons.append(
            Comparison(
                point=point,
                best=best,
                others=tuple(zip(others, differences, strict=True)),
                left_out=tuple(row for row in switches if not row.valid),
                baseline=baseline_of(best, rows),
            )
        )
    return comparisons


def headline(row: SummaryRow) -> Estimate:
    """Return the figure a row is ranked by: the mean of forwarded frames/s, or the median over
    repetitions of the median round trip in ns."""
    if row.latency is not None:
        return row.latency.median_ns
    assert row.throughput is not None, "a finished row has a throughput or a latency"
    return row.throughput.forwarded_pps


def baseline_of(row: SummaryRow, rows: Iterable[SummaryRow]) -> SummaryRow | None:
    """Return the bare wire that judged a row; None if it was not measured, and for a wire."""
    if row.is_wire:
        return None
    wires = (one for one in rows if one.is_wire and one.finished and one.method is None)
    wanted = _at_wire(row)
    return next(
        (
            one
            for one in wires
            if are_compatible(one.page_size_kib, row.page_size_kib) and _at_wire(one) == wanted
        ),
        None,
    )


def _at_wire(row: SummaryRow) -> dict[str, Any]:
    """What a row and its bare wire share: the load, where the wire is, and the cores that the
    switch uses and the wire leaves idle."""
    own = row.trial.switch_cores if row.switch_has_cores else 0
    spare = row.trial.spare_cores if row.is_wire else own
    ends = {"port_kind": row.port_kind, "io": row.io}
    elsewhere = row.bare_wire.model_dump(mode="json") if row.bare_wire else {}
    return load_of(row.trial) | ends | elsewhere | {"spare_cores": spare}


def rank(row: SummaryRow) -> float:
    """The figure by which rows are sorted, the lower the better; methods of many trials have
    none."""
    if row.method is not None:
        return 0.0
    value = headline(row).mean
    return value if row.latency is not None else -value
