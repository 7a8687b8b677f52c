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
    observed_in,
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
    metrics: Sequence[Metric],
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
    observed = observed_in(run)
    answers = [
        answered for answered in answer(observed, proving, names) if answered.metric in metrics
    ]
    tried_at = [
        (point, names.get(answered.contender), answered.unused)
        for point, answered in _with_points(observed)
    ]
    zeros = {(point, name) for point, name, why in tried_at if why == WITHOUT_RATIO}
    tried = {(point, name) for point, name, _ in tried_at}
    broken = [
        answered.point
        for answered in answers
        if answered.decides
        and _ranked(answered, a)
        and not _ranked(answered, b)
        and (answered.point, b) in tried
        # A figure of 0 is not a failure if lower is better, for example no lost frame.
        if answered.metric.higher_is_better or (answered.point, b) not in zeros
    ]
    return PairedRun(
        figures=tuple(figure for answered in answers for figure in _figures(answered, a, b)),
        broken=tuple(broken),
        without_ratio=tuple(
            dict.fromkeys(
                point for point, name, _ in tried_at if name in (a, b) and (point, name) in zeros
            )
        ),
        blocks=max((answered.blocks for answered in answers), default=0),
        prove=proving.prove,
        confidence=proving.confidence,
    )


def _with_points(observed: Iterable[Observed]) -> Iterator[tuple[Point, Observed]]:
    """Yield each observation with each point at which it is compared."""
    points: dict[Point, list[Observed]] = defaultdict(list)
    for trial in observed:
        points[point_of(trial.trial)].append(trial)
    for point, trials in points.items():
        for at, alike in by_page_size(point, trials):
            for trial in alike:
                yield at, trial


def _ranked(answered: PointAnswer, name: str) -> RankedContender | None:
    return next((contender for contender in answered.ranking if contender.contender == name), None)


def _figures(answered: PointAnswer, a: str, b: str) -> Iterator[PairedFigure]:
    ranked_a, ranked_b, lead = _ranked(answered, a), _ranked(answered, b), answered.between(a, b)
    if ranked_a is None or ranked_b is None:
        return
    # A ratio above 1 means that the first contender is better.
    upper = b if answered.metric.higher_is_better else a
    for ratio in (lead.seen_from(upper) if lead else ()) or (None,):
        yield PairedFigure(
            point=answered.point,
            metric=answered.metric,
            a=ranked_a,
            b=ranked_b,
            ratio=ratio,
            pairs=ratio.pairs if ratio else lead.pairs if lead else 0,
            further_s=lead.further_s if lead else None,
            state=ratio.state if ratio else None,
            testbed=answered.testbed,
        )
