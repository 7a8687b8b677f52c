"""A campaign that proves, on one machine: its trials block by block, until it is enough.

`Course` decides which block comes next, and when all comparisons are decided or the time is over.
It reads the stored records of the run, so that a campaign that was stopped continues at the same
trial, with the same decisions.
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
    """The steps to run next, again and again; each list is asked for once the one before is stored.
    Steps that have a record are left out; trials that had failed before the run was resumed run
    again."""

    def __init__(
        self,
        run: Run,
        campaign: CampaignDefinition,
        steps: Sequence[Step],
        is_left_out: Callable[[Trial], bool] = none_left_out,
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


GIVEN_UP_AFTER = 3  # trials without a figure, of a contender that never had one


class Course:
    """The trials to measure next, again and again; each list is asked for once the trials of the
    one before are over.

    `trials` are those of the first block at each point. `is_over`: whether a trial is not to be
    measured (again), with or without a record; `observed`: the observations of these trials'
    records, without those that have none; `is_left_out`: whether a trial's contender cannot start,
    so that no more of its trials are measured."""

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

    def take(self, seen: Iterable[Observed]) -> None:
        """Count the time of trials that belong to no block."""
        self._time.take(seen)

    def __iter__(self) -> Iterator[list[Trial]]:
        for block in count():
            draw = random.Random(f"{self._seed}/{block}").random
            going_on = [point for point in self._points if point.wanted(block)]
            for point in sorted(going_on, key=lambda _: draw()):
                repetition = self._proving.repetition(block)
                asked = [
                    point.trials[one].repeated(repetition) for one in sorted(point.wanted(block))
                ]
                asked.sort(key=lambda _: draw())
                todo = [one for one in asked if not self._is_over(one)]
                if todo and not self._time.has_room(todo):
                    self.is_out_of_time = True
                    return
                if todo:
                    yield todo
                seen = self._observed(asked)
                self._time.take(seen)
                point.take(seen, block + 1)
            if not going_on:
                return


@dataclass
class _Point:
    """The contenders of one point, and what is known of them."""

    trials: dict[str, Trial]  # by contender
    proving: Proving
    is_left_out: Callable[[Trial], bool] = none_left_out
    round_s: float = 0.0  # duration of a block at every point of the campaign
    observed: list[Observed] = field(default_factory=list)
    able: set[str] = field(default_factory=set)  # those that gave a figure
    failures: Counter[str] = field(default_factory=Counter)
    looks: InterimAnalyses | None = None  # at the figure that decides, once one has been seen

    def wanted(self, block: int) -> set[str]:
        """The contenders that the next block needs; empty where fewer than two are left."""
        if len(self.trials) == 1:
            is_going_on = block < self.proving.blocks and not any(
                map(self.is_left_out, self.trials.values())
            )
            return set(self.trials) if is_going_on else set()
        asked = set(self.trials)
        gone = {one for one, trial in self.trials.items() if self.is_left_out(trial)}
        if self.looks is not None and block >= self.proving.blocks:
            is_over = self.looks.rule.next_look(block) is None
            asked = set() if is_over else self.looks.needed
        failing = {one for one, times in self.failures.items() if times >= GIVEN_UP_AFTER}
        asked -= (failing - self.able) | gone
        return asked if len(asked) > 1 else set()

    def take(self, seen: Sequence[Observed], blocks: int) -> None:
        """Note that a block has been measured, the last of so many."""
        self.observed += seen
        for one in seen:
            if one.figures and not one.unused:
                self.able.add(one.contender)
            else:
                self.failures[one.contender] += 1
        names = metrics_of(self.observed)
        if self.looks is None and names:
            rule = self.proving.rule(list(self.trials.values()), self.round_s)
            self.looks = InterimAnalyses(names[0], rule, self.proving.prove, list(self.trials))
        if self.looks is not None:
            self.looks.after(self.observed, blocks)


@dataclass
class _Time:
    """How long the campaign has run, interruptions left out, and how long trials take."""

    budget_s: float
    spans: dict[object, tuple[float, float]] = field(default_factory=dict)  # without interruption
    taken_s: dict[str, float] = field(default_factory=dict)  # by contender, the last trial's

    def take(self, seen: Iterable[Observed]) -> None:
        """Note that these trials have been measured."""
        for one in seen:
            # Between its blocks a testbed of a pool is checked, and measures for other campaigns.
            span = (one.part, one.block if one.testbed else 0)
            begun, ended = self.spans.get(span, (one.start_s, one.end_s))
            self.spans[span] = min(begun, one.start_s), max(ended, one.end_s)
            self.taken_s[one.contender] = one.end_s - one.start_s

    @property
    def left_s(self) -> float:
        return self.budget_s - sum(ended - begun for begun, ended in self.spans.values())

    def has_room(self, todo: Iterable[Trial]) -> bool:
        """Return True if these trials end before the campaign's time does."""
        return sum(map(self._guess_s, todo)) <= self.left_s

    def _guess_s(self, trial: Trial) -> float:
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
