"""Blocks of a campaign that proves: who is measured next, and when it is enough.

A block measures the contenders of one point once each, in random order; points take turns. After
the planned looks (results/proving.py) a contender whose comparisons are all decided drops out, and
its time goes to those that are not. The campaign ends when all is decided or its time is over.

Everything follows from the stored records and the seed: a campaign that was stopped goes on at
the very trial, with the decisions that it had made.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from switchmark.experiment.steps import Step
from switchmark.method.registry import usual_time_s
from switchmark.model.campaign import Campaign
from switchmark.model.overhead import usual_overhead_s
from switchmark.model.parameters import point_of
from switchmark.results.answer import metrics_of
from switchmark.results.blocks import Observed, observe
from switchmark.results.proving import Looks, Proving, round_s
from switchmark.results.store import Run

GIVEN_UP_AFTER = 3  # trials that gave no figure, where none ever did


class CampaignBlocks:
    """The steps to run next, again and again, each list asked for once the one before is stored.

    Steps that have a record, even of a failure, are left out: their block is over."""

    def __init__(self, run: Run, campaign: Campaign, steps: Sequence[Step]) -> None:
        self._run = run
        self._seed = campaign.seed
        self._proving = Proving.of(campaign.model_dump())
        self._baselines = [step for step in steps if step.is_baseline]
        self._points = _points(steps, self._proving)
        self._resumed = run.resumed_at()
        self._time = _Time(self._proving.budget_s or 0.0)

    @property
    def left_s(self) -> float:
        """What is left of the budget."""
        return self._time.left_s

    def __iter__(self) -> Iterator[list[Step]]:
        yield self._baselines
        self._time.take(self._observed(self._baselines))
        for block in count():
            draw = random.Random(f"{self._seed}/{block}").random
            going_on = [point for point in self._points if point.wanted(block)]
            for point in sorted(going_on, key=lambda _: draw()):
                asked = [_again(point.steps[one], block) for one in sorted(point.wanted(block))]
                asked.sort(key=lambda _: draw())
                todo = [one for one in asked if not self._run.path_of(one.plan.trial.id).exists()]
                if todo and not self._time.has_room(todo):
                    return
                if todo:
                    yield todo
                seen = self._observed(asked)
                self._time.take(seen)
                point.take(seen, block + 1)
            if not going_on:
                return

    def _observed(self, steps: Sequence[Step]) -> list[Observed]:
        """What the records of these steps say; those without one are left out."""
        ids = [step.plan.trial.id for step in steps]
        stored = [one for one in ids if self._run.path_of(one).exists()]
        return [observe(self._run.read(one), self._resumed) for one in stored]


@dataclass
class _Point:
    """The contenders of one point, and what is known of them."""

    steps: dict[str, Step]  # by contender
    proving: Proving
    round_s: float = 0.0  # of a block at every point of the campaign
    observed: list[Observed] = field(default_factory=list)
    able: set[str] = field(default_factory=set)  # those that gave a figure
    failures: Counter[str] = field(default_factory=Counter)
    looks: Looks | None = None  # at the figure that decides, once one has been seen

    def wanted(self, block: int) -> set[str]:
        """The contenders that the next block needs; fewer than two are none."""
        if len(self.steps) == 1:
            return set(self.steps) if block < self.proving.blocks else set()
        asked = set(self.steps)
        if self.looks is not None and block >= self.proving.blocks:
            is_over = self.looks.rule.next_look(block) is None
            asked = set() if is_over else self.looks.asked
        failing = {one for one, times in self.failures.items() if times >= GIVEN_UP_AFTER}
        asked -= failing - self.able
        return asked if len(asked) > 1 else set()

    def take(self, seen: Sequence[Observed], blocks: int) -> None:
        """A block has been measured, so many in all."""
        self.observed += seen
        for one in seen:
            if one.figures and not one.unused:
                self.able.add(one.contender)
            else:
                self.failures[one.contender] += 1
        names = metrics_of(self.observed)
        if self.looks is None and names:
            own = [step.plan.trial for step in self.steps.values()]
            rule = self.proving.rule(own, self.round_s)
            self.looks = Looks(names[0], rule, self.proving.prove, list(self.steps))
        if self.looks is not None:
            self.looks.after(self.observed, blocks)


@dataclass
class _Time:
    """How long the campaign has run, interruptions left out, and how long trials take."""

    budget_s: float
    spans: dict[int, tuple[float, float]] = field(default_factory=dict)  # by part of the run
    taken_s: dict[str, float] = field(default_factory=dict)  # by contender, the last trial's

    def take(self, seen: Iterable[Observed]) -> None:
        """These trials have been measured."""
        for one in seen:
            begun, ended = self.spans.get(one.part, (one.start_s, one.end_s))
            self.spans[one.part] = min(begun, one.start_s), max(ended, one.end_s)
            self.taken_s[one.contender] = one.end_s - one.start_s

    @property
    def left_s(self) -> float:
        return self.budget_s - sum(ended - begun for begun, ended in self.spans.values())

    def has_room(self, todo: Iterable[Step]) -> bool:
        """Whether these trials end before the campaign's time does."""
        return sum(map(self._guess_s, todo)) <= self.left_s

    def _guess_s(self, step: Step) -> float:
        trial = step.plan.trial
        usual_s = usual_time_s(trial) + usual_overhead_s(trial.switch)
        return self.taken_s.get(trial.repeated(0).id, usual_s)


def _points(steps: Sequence[Step], proving: Proving) -> list[_Point]:
    own = [one for one in steps if not one.is_baseline and one.plan.trial.repetition == 0]
    whole_s = round_s(step.plan.trial for step in own)
    points: dict[object, _Point] = {}
    for step in own:
        point = points.setdefault(point_of(step.plan.trial), _Point({}, proving, whole_s))
        point.steps[step.plan.trial.id] = step
    return list(points.values())


def _again(step: Step, block: int) -> Step:
    trial = step.plan.trial.repeated(block)
    return replace(step, plan=replace(step.plan, trial=trial))
