"""Compares two contenders of one run, B against A, by the pairs of its blocks.

The statistics are those of the comparison results (results/answer.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from switchmark.errors import UsageError
from switchmark.language import values
from switchmark.model.parameter_table import point_of
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import Point
from switchmark.results.answer import (
    LeadRatio,
    PointAnswer,
    RankedContender,
    answer,
    by_page_size,
    observations,
)
from switchmark.results.blocks import WITHOUT_RATIO, Observed
from switchmark.results.proving import Proving
from switchmark.results.run_directory import Run
from switchmark.statistics.states import State


@dataclass(frozen=True, slots=True)
class PairedFigure:
    """One figure at one point, in one state of the machine if the states differ."""

    point: Point
    metric: Metric
    a: RankedContender
    b: RankedContender
    ratio: LeadRatio | None  # quotient B / A of the figures; None with too few pairs
    pairs: int
    further_s: float | None  # seconds that would decide it; None: decided, or too many
    state: State | None
    testbed: str = ""  # the testbed, if each testbed of a pool decides separately


@dataclass(frozen=True, slots=True)
class PairedRun:
    """The comparison of two contenders of a run."""

    figures: tuple[PairedFigure, ...]
    broken: tuple[Point, ...]  # points at which A has a figure and each trial of B failed
    without_ratio: tuple[Point, ...]  # points at which a figure of A or B is 0
    blocks: int
    prove: float
    confidence: float


def compare_in_run(
    run: Run,
    a: str,
    b: str,
    names: Mapping[str, str],
    wanted: Sequence[Metric],
    threshold: float | None,
    overhead_s: Callable[[str], float],
) -> PairedRun:
    """Compare B with A. `names` gives the name of a contender by the id of its first trial,
    `threshold` the smallest change that matters (default: `prove` of the campaign), `overhead_s`
    the usual seconds around a trial of a switch. Raises `UsageError` for an unknown contender."""
    known = list(dict.fromkeys(names.values()))
    for name in (a, b):
        if name not in known:
            raise UsageError(f"{run.directory}: {values.unknown(name, known, 'contender')}")
    if a == b:
        raise UsageError(f"{run.directory}: contender {a} is compared with itself; name two")
    proving = Proving.of(run.info.definition, overhead_s, run.info.parsed_settings.testbeds)
    if threshold is not None:
        proving = replace(proving, prove=threshold)
    observed = [seen for seen, _ in observations(run)]
    found = [one for one in answer(observed, proving, names) if one.metric in wanted]
    told = [(point, names.get(one.contender), one.unused) for point, one in _with_points(observed)]
    zeros = {(point, name) for point, name, why in told if why == WITHOUT_RATIO}
    tried = {(point, name) for point, name, _ in told}
    broken = [
        one.point
        for one in found
        if one.decides and _held(one, a) and not _held(one, b) and (one.point, b) in tried
        # A figure of 0 is not a failure if lower is better, for example no lost frame.
        if one.metric.higher_is_better or (one.point, b) not in zeros
    ]
    return PairedRun(
        figures=tuple(figure for one in found for figure in _figures(one, a, b)),
        broken=tuple(broken),
        without_ratio=tuple(
            dict.fromkeys(
                point for point, name, _ in told if name in (a, b) and (point, name) in zeros
            )
        ),
        blocks=max((one.blocks for one in found), default=0),
        prove=proving.prove,
        confidence=proving.confidence,
    )


def _with_points(observed: Iterable[Observed]) -> Iterator[tuple[Point, Observed]]:
    """Yield each observation with each point at which it is compared."""
    points: dict[Point, list[Observed]] = defaultdict(list)
    for one in observed:
        points[point_of(one.trial)].append(one)
    for point, held in points.items():
        for at, alike in by_page_size(point, held):
            for one in alike:
                yield at, one


def _held(found: PointAnswer, name: str) -> RankedContender | None:
    return next((one for one in found.ranking if one.contender == name), None)


def _figures(found: PointAnswer, a: str, b: str) -> Iterator[PairedFigure]:
    one, other, lead = _held(found, a), _held(found, b), found.between(a, b)
    if one is None or other is None:
        return
    # A ratio above 1 means that the first contender is better.
    upper = b if found.metric.higher_is_better else a
    for ratio in (lead.seen_from(upper) if lead else ()) or (None,):
        yield PairedFigure(
            point=found.point,
            metric=found.metric,
            a=one,
            b=other,
            ratio=ratio,
            pairs=ratio.pairs if ratio else lead.pairs if lead else 0,
            further_s=lead.further_s if lead else None,
            state=ratio.state if ratio else None,
            testbed=found.testbed,
        )
