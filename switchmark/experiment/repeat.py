"""Repeats trials until every interval is narrow enough, or the repetitions or the time end.

After the campaign's repetitions, blocks in random order follow that contain only the trials whose
95 % confidence interval is still too wide. Each interim analysis has its own level, so that
stopping at a narrow interval does not make it too narrow (boundaries.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from switchmark.experiment.steps import Step
from switchmark.method.registry import usual_time_s
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.trial import Trial
from switchmark.results.run_directory import Run
from switchmark.statistics.boundaries import StoppingRule
from switchmark.statistics.means import estimate
from switchmark.statistics.outliers import strange_repetitions


@dataclass(frozen=True, slots=True)
class Ending:
    """The state of a trial after its last repetition."""

    trial: Trial  # repetition 0
    count: int
    half_width: float | None  # half the interval over the mean; None: fewer than two figures
    narrow: bool
    strange: tuple[str, ...]  # outliers and bands among the repetitions; none are dropped


def more_blocks(
    run: Run, campaign: CampaignDefinition, steps: Sequence[Step]
) -> Iterator[list[Step]]:
    """Yield the remaining blocks. The caller stores a block before it requests the next."""
    if campaign.until_ci is None:
        return
    draw = random.Random(f"{campaign.seed}/more").random
    first = _first(steps)
    spent_s = sum(usual_time_s(step.plan.trial) for step in steps)
    for repetition in range(campaign.repetitions, campaign.max_repetitions):
        block = [
            step.repeated(repetition)
            for step in first
            if not ending_of(run, campaign, step.plan.trial, repetition).narrow
        ]
        spent_s += sum(usual_time_s(step.plan.trial) for step in block)
        if not block or (campaign.time_budget_s is not None and spent_s > campaign.time_budget_s):
            return
        block.sort(key=lambda _step: draw())
        yield block


def ending_of(run: Run, campaign: CampaignDefinition, trial: Trial, repetitions: int) -> Ending:
    """Return the state of a trial after the first `repetitions`. A trial that always fails needs no
    more repetitions."""
    figures = dict(_figures(run, trial, repetitions))
    numbers, values = list(figures), [value for value, _ in figures.values()]
    step = max((step for _, step in figures.values()), default=0.0)
    rule = StoppingRule.after_each(campaign.repetitions, campaign.max_repetitions)
    level = rule.level_at(max(rule.analyses[0], len(values)))
    half = estimate(values, level).relative_half_width if values else None
    strange = strange_repetitions(values, numbers, "{:.6g}".format, step)
    narrow = not values or (half is not None and half <= (campaign.until_ci or 1.0))
    return Ending(trial, len(values), half, narrow, tuple(strange))


def endings(run: Run, campaign: CampaignDefinition, steps: Sequence[Step]) -> list[Ending]:
    """Return the state of each trial at the end of the campaign."""
    return [
        ending_of(run, campaign, step.plan.trial, campaign.max_repetitions)
        for step in _first(steps)
    ]


def _figures(run: Run, trial: Trial, repetitions: int) -> Iterator[tuple[int, tuple[float, float]]]:
    """Yield the repetition, the figure, and the resolution of the figure (0: unknown) of each
    finished trial."""
    for repetition in range(repetitions):
        trial_id = trial.repeated(repetition).id
        if not run.path_of(trial_id).exists():
            continue
        record = run.read(trial_id)
        if record.status == "finished" and record.headline is not None:
            loads = record.throughput
            step_pps = loads.burst_pps if loads is not None else None
            yield repetition, (record.headline[0], step_pps or 0.0)


def _first(steps: Sequence[Step]) -> list[Step]:
    """Return the first repetition of each trial that is not a baseline."""
    return [step for step in steps if step.plan.trial.repetition == 0 and not step.is_baseline]
