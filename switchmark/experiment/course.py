"""Blocks of a campaign that proves: who is measured next on a machine, and when it is enough.

A block measures the contenders of one point once each, in random order; points take turns. After
the planned looks (results/proving.py) a contender whose comparisons are all decided drops out, and
its time goes to those that are not. The campaign ends when all is decided or its time is over.

Everything follows from what has been measured and from the seed. One machine and each testbed of a
pool follow this alike: there is no other stopping rule.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from switchmark.campaign.around import usual_around_s
from switchmark.method.registry import usual_time_s
from switchmark.model.parameters import point_of
from switchmark.model.trial import Trial
from switchmark.results.answer import metrics_of
from switchmark.results.blocks import Observed
from switchmark.results.proving import Looks, Proving

GIVEN_UP_AFTER = 3  # trials that gave no figure, where none ever did


def nobody(trial: Trial) -> bool:
    """Leave out no contender."""
    del trial
    return False


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
        is_left_out: Callable[[Trial], bool] = nobody,
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
    is_left_out: Callable[[Trial], bool] = nobody
    round_s: float = 0.0  # of a block at every point of the campaign
    observed: list[Observed] = field(default_factory=list)
    able: set[str] = field(default_factory=set)  # those that gave a figure
    failures: Counter[str] = field(default_factory=Counter)
    looks: Looks | None = None  # at the figure that decides, once one has been seen

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
            self.looks = Looks(names[0], rule, self.proving.prove, list(self.trials))
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
        """Whether these trials end before the campaign's time does."""
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
