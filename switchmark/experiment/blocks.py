"""A campaign that proves, on one machine: its trials block by block, until it is enough.

course.py says which block comes next, and when all is decided or the time is over. It is asked with
the run's stored records, so that a campaign that was stopped goes on at the same trial, with the
decisions that it had made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from switchmark.experiment.course import Course, nobody
from switchmark.experiment.steps import Step
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.trial import Trial
from switchmark.results.blocks import Observed, observe
from switchmark.results.proving import Proving
from switchmark.results.store import Run
from switchmark.switch.registry import usual_overhead_s


class CampaignBlocks:
    """The steps to run next, again and again; each list is asked for once the one before is stored.
    Steps that have a record are left out; trials that had failed before the run was resumed run
    again."""

    def __init__(
        self,
        run: Run,
        campaign: CampaignDefinition,
        steps: Sequence[Step],
        is_left_out: Callable[[Trial], bool] = nobody,
    ) -> None:
        """`is_left_out`: whether the contender of this trial is left out for the rest of the
        run."""
        self._run = run
        self._resumed = run.resumed_at()
        self._baselines = [step for step in steps if step.is_baseline]
        first = [step for step in steps if not step.is_baseline]
        self._steps = {step.plan.trial.id: step for step in first}
        own = [step.plan.trial for step in first if step.plan.trial.repetition == 0]
        proving = Proving.of(campaign.model_dump(), usual_overhead_s)
        before = run.statuses() if self._resumed else {}
        self._failed_before = {trial for trial, status in before.items() if status == "failed"}
        self._course = Course(
            own, campaign.seed, proving, self._is_over, self._observed, is_left_out
        )

    @property
    def left_s(self) -> float:
        """The rest of the budget in seconds."""
        return self._course.left_s

    @property
    def is_out_of_time(self) -> bool:
        """True if the budget ended the campaign while something was undecided."""
        return self._course.is_out_of_time

    def __iter__(self) -> Iterator[list[Step]]:
        yield self._baselines
        self._course.take(self._observed([step.plan.trial for step in self._baselines]))
        for block in self._course:
            self._failed_before -= {trial.id for trial in block}
            yield [self._steps[one.repeated(0).id].repeated(one.repetition) for one in block]

    def _is_over(self, trial: Trial) -> bool:
        return trial.id not in self._failed_before and self._run.path_of(trial.id).exists()

    def _observed(self, trials: Sequence[Trial]) -> list[Observed]:
        """The observations of these trials' records; trials without one are left out."""
        stored = [one.id for one in trials if self._is_over(one)]
        return [observe(self._run.read(one), self._resumed) for one in stored]
