"""The block schedule of a campaign that proves comparisons, on one machine.

`BlockSchedule` determines the next block, and ends when all comparisons are decided or the time is
over. It reads the stored records of the run, so that a campaign that was stopped continues at the
same trial, with the same decisions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from switchmark.campaign.overhead import usual_around_s
from switchmark.experiment.steps import Step
from switchmark.method.registry import usual_time_s
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameter_table import point_of
from switchmark.model.trial import Trial
from switchmark.results.answer import metrics_of
from switchmark.results.blocks import Observed, observe
from switchmark.results.proving import InterimAnalyses, Proving
from switchmark.results.run_directory import Run
from switchmark.switch.registry import usual_overhead_s


def none_left_out(trial: Trial) -> bool:
    """Leave out no contender."""
    del trial
    return False


class CampaignBlocks:
    """Yields the steps of one block after the other. The caller stores the records of a block
    before it requests the next. Steps that have a record are left out, except for trials that had
    failed before the run was resumed."""

    def __init__(
        self,
        run: Run,
        campaign: CampaignDefinition,
        steps: Sequence[Step],
        is_left_out: Callable[[Trial], bool] = none_left_out,
    ) -> None:
        """`is_left_out` returns True if the contender of a trial is left out from now on."""
        self._run = run
        self._resumed = run.resumed_at()
        self._baselines = [step for step in steps if step.is_baseline]
        first = [step for step in steps if not step.is_baseline]
        self._steps = {step.plan.trial.id: step for step in first}
        trials = [step.plan.trial for step in first if step.plan.trial.repetition == 0]
        proving = Proving.of(campaign.model_dump(), usual_overhead_s)
        before = run.statuses() if self._resumed else {}
        self._failed_before = {trial for trial, status in before.items() if status == "failed"}
        self._schedule = BlockSchedule(
            trials, campaign.seed, proving, self._is_over, self._observed, is_left_out
        )

    @property
    def left_s(self) -> float:
        """The rest of the budget in seconds."""
        return self._schedule.left_s

    @property
    def is_out_of_time(self) -> bool:
        """True if the budget ended the campaign while comparisons were undecided."""
        return self._schedule.is_out_of_time

    def __iter__(self) -> Iterator[list[Step]]:
        yield self._baselines
        self._schedule.take(self._observed([step.plan.trial for step in self._baselines]))
        for block in self._schedule:
            self._failed_before -= {trial.id for trial in block}
            yield [self._steps[trial.repeated(0).id].repeated(trial.repetition) for trial in block]

    def _is_over(self, trial: Trial) -> bool:
        return trial.id not in self._failed_before and self._run.path_of(trial.id).exists()

    def _observed(self, trials: Sequence[Trial]) -> list[Observed]:
        """Return the observations of the trials that have a record."""
        stored = [trial.id for trial in trials if self._is_over(trial)]
        return [observe(self._run.read(trial_id), self._resumed) for trial_id in stored]


GIVEN_UP_AFTER = 3  # failed trials of a contender that never had a figure


class BlockSchedule:
    """Yields the trials of one block after the other. The caller measures a block before it
    requests the next.

    `trials` are those of the first block at each test point. `is_over` returns True if a trial need
    not be measured. `observed` returns the observations of the given trials that have a record.
    `is_left_out` returns True if a trial's contender cannot start."""

    def __init__(
        self,
        trials: Sequence[Trial],
        seed: int,
        proving: Proving,
        is_over: Callable[[Trial], bool],
        observed: Callable[[Sequence[Trial]], list[Observed]],
        is_left_out: Callable[[Trial], bool] = none_left_out,
    ) -> None:
        self._seed = seed
        self._proving = proving
        self._is_over = is_over
        self._observed = observed
        self._points = _points(trials, proving, is_left_out)
        self._time = _Time(proving.budget_s or 0.0)
        self.is_out_of_time = False  # the budget ended the campaign, not a decision

    @property
    def left_s(self) -> float:
        """The rest of the budget in seconds."""
        return self._time.left_s

    def take(self, observations: Iterable[Observed]) -> None:
        """Count the time of trials that do not belong to a block."""
        self._time.take(observations)

    def __iter__(self) -> Iterator[list[Trial]]:
        for block in count():
            draw = random.Random(f"{self._seed}/{block}").random
            open_points = [point for point in self._points if point.needed(block)]
            for point in sorted(open_points, key=lambda _: draw()):
                repetition = self._proving.repetition(block)
                trials = [
                    point.trials[name].repeated(repetition) for name in sorted(point.needed(block))
                ]
                trials.sort(key=lambda _: draw())
                todo = [trial for trial in trials if not self._is_over(trial)]
                if todo and not self._time.has_room(todo):
                    self.is_out_of_time = True
                    return
                if todo:
                    yield todo
                observations = self._observed(trials)
                self._time.take(observations)
                point.take(observations, block + 1)
            if not open_points:
                return


@dataclass
class _Point:
    """The contenders of one test point, and their observations."""

    trials: dict[str, Trial]  # by contender
    proving: Proving
    is_left_out: Callable[[Trial], bool] = none_left_out
    round_s: float = 0.0  # duration of a block at every point of the campaign
    observed: list[Observed] = field(default_factory=list)
    able: set[str] = field(default_factory=set)  # contenders with a figure that is compared
    failures: Counter[str] = field(default_factory=Counter)
    analyses: InterimAnalyses | None = None  # begin with the first figure

    def needed(self, block: int) -> set[str]:
        """Return the contenders that the next block needs; empty if fewer than two are left."""
        if len(self.trials) == 1:
            is_over = block >= self.proving.blocks or any(
                map(self.is_left_out, self.trials.values())
            )
            return set() if is_over else set(self.trials)
        needed = set(self.trials)
        left_out = {name for name, trial in self.trials.items() if self.is_left_out(trial)}
        if self.analyses is not None and block >= self.proving.blocks:
            is_over = self.analyses.rule.next_analysis(block) is None
            needed = set() if is_over else self.analyses.needed
        failing = {name for name, times in self.failures.items() if times >= GIVEN_UP_AFTER}
        needed -= (failing - self.able) | left_out
        return needed if len(needed) > 1 else set()

    def take(self, observations: Sequence[Observed], blocks: int) -> None:
        """Add the observations of a block. `blocks` is the number of blocks so far."""
        self.observed += observations
        for observation in observations:
            if metrics_of([observation]) and not observation.unused:
                self.able.add(observation.contender)
            else:
                self.failures[observation.contender] += 1
        names = metrics_of(self.observed)
        if self.analyses is None and names:
            rule = self.proving.rule(list(self.trials.values()), self.round_s)
            self.analyses = InterimAnalyses(names[0], rule, self.proving.prove, list(self.trials))
        if self.analyses is not None:
            self.analyses.after(self.observed, blocks)


@dataclass
class _Time:
    """The time of the campaign without interruptions, and the times of its trials."""

    budget_s: float
    spans: dict[object, tuple[float, float]] = field(default_factory=dict)  # without interruption
    taken_s: dict[str, float] = field(default_factory=dict)  # time of each contender's last trial

    def take(self, observations: Iterable[Observed]) -> None:
        """Add the times of these trials."""
        for trial in observations:
            # Between blocks, a testbed of a pool is checked, and measures other campaigns.
            span = (trial.part, trial.block if trial.testbed else 0)
            begun, ended = self.spans.get(span, (trial.start_s, trial.end_s))
            self.spans[span] = min(begun, trial.start_s), max(ended, trial.end_s)
            self.taken_s[trial.contender] = trial.end_s - trial.start_s

    @property
    def left_s(self) -> float:
        return self.budget_s - sum(ended - begun for begun, ended in self.spans.values())

    def has_room(self, todo: Iterable[Trial]) -> bool:
        """Return True if these trials fit into the rest of the budget."""
        return sum(map(self._expected_s, todo)) <= self.left_s

    def _expected_s(self, trial: Trial) -> float:
        usual_s = usual_time_s(trial) + usual_around_s(trial)
        return self.taken_s.get(trial.repeated(0).id, usual_s)


def _points(
    trials: Sequence[Trial], proving: Proving, is_left_out: Callable[[Trial], bool]
) -> list[_Point]:
    whole_s = proving.round_s(trials)
    points: dict[object, _Point] = {}
    for trial in trials:
        point = points.setdefault(point_of(trial), _Point({}, proving, is_left_out, whole_s))
        point.trials[trial.id] = trial
    return list(points.values())
