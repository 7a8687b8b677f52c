"""The runs of `switchmark reproduce`: items in turn, each scaled to its share of the time left,
and then further blocks for findings that are still open.

To keep a budget, no trial begins that would end too late. The same command continues later with
the trials that are missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.campaign.find import find_campaign, source_text
from switchmark.campaign.installed import Installed
from switchmark.campaign.overhead import Around
from switchmark.cli.output import note
from switchmark.cli.progress import CampaignProgress
from switchmark.errors import BusyError, SwitchmarkError
from switchmark.experiment.campaign import Observers
from switchmark.experiment.execute import Request, execute
from switchmark.formatting import format_duration
from switchmark.method.registry import usual_time_s
from switchmark.model.trial import Trial
from switchmark.remote.site import Site
from switchmark.reproduction import budget as scaling
from switchmark.reproduction.paper import Item, Paper
from switchmark.reproduction.progress import progress_of, steps_of
from switchmark.reproduction.run import folder_of, latest
from switchmark.reproduction.second_stage import GIVEN_AWAY, block_s, open_paper, plan
from switchmark.reproduction.stages import settings_of
from switchmark.reproduction.state import ItemState, state_of
from switchmark.reproduction.timing_model import Learner, learn_from
from switchmark.results.run_directory import open_run

LEAST_SHARE_S = 5.0  # for one item
FIRST_SHARE = 0.6  # the second stage gets the rest of the budget
# The factor by which an item may exceed its share if the prediction fits it. Predictions are rough,
# and the last trials of a block are worth more than their time for another item.
TOLERANCE = 1.5
COMPARED = 4  # times the weight of an item that no finding is about


Due = tuple[Paper, Item, ItemState]


@dataclass
class ItemRunner:
    """Runs items one after the other, each scaled to its share of the time left."""

    there: Installed
    results: Path
    budget_s: float | None
    settings: list[str]
    testbed: Path | None
    site: Site | None
    again: bool
    quiet: bool
    began: float = field(default_factory=time.monotonic)
    around: Around = field(default_factory=Around)  # learnt as trials run
    coarse: dict[str, list[Trial]] = field(default_factory=dict)
    lacking: dict[str, tuple[Trial, ...]] = field(default_factory=dict)  # missing in begun runs
    open: dict[str, Due] = field(default_factory=dict)  # items of the budget that are not finished
    ran: set[str] = field(default_factory=set)  # the campaigns that were run
    failed: int = 0
    said: set[str] = field(default_factory=set)

    def run(
        self,
        chosen: Sequence[tuple[Paper, Sequence[Item]]],
        states: dict[tuple[str, str], ItemState],
    ) -> int:
        """Run all items that can run; returns how many failed."""
        learn_from(self.around, self._runs_before(paper for paper, _ in chosen))
        due: dict[str, Due] = {}
        for paper, items in chosen:
            for item in items:
                state = states[paper.name, item.name]
                if not state.runs:
                    note(f"{paper.name} {item.name}: {state.words}")
                elif item.campaign not in due and not self._is_done(paper, item, state):
                    due[item.campaign] = (paper, item, state)
        left = dict(due)
        for campaign, (paper, item, state) in due.items():
            share_s = self._share_s(campaign, left)
            del left[campaign]
            if share_s is not None and share_s < LEAST_SHARE_S:
                note(
                    f"{paper.name} {item.name}: not begun in its turn: its share of the budget is "
                    f"below {LEAST_SHARE_S:g} s"
                )
                self.open[campaign] = (paper, item, state)
                continue
            self._run(paper, item, state, share_s)
        if self.budget_s is not None:
            self._second_stage(chosen, states)
            self._run_open_items()
        return self.failed

    def _runs_before(self, papers: Iterable[Paper]) -> Iterator[Path]:
        """The latest run of each item."""
        for paper in papers:
            for campaign in dict.fromkeys(item.campaign for item in paper.items):
                if (found := latest(folder_of(paper, self.results), campaign)) is not None:
                    yield found

    def _run_open_items(self) -> None:
        """Give the time left to items whose shares were too small."""
        for paper, item, state in list(self.open.values()):
            if (left_s := self._left_s()) >= LEAST_SHARE_S:
                self._run(paper, item, state, left_s)
        if self.open:
            names = ", ".join(f"{paper.name} {item.name}" for paper, item, _ in self.open.values())
            note(f"the budget is spent; the same command goes on with {names}")

    def _left_s(self) -> float:
        assert self.budget_s is not None
        return self.budget_s - (time.monotonic() - self.began)

    def _second_stage(
        self,
        chosen: Sequence[tuple[Paper, Sequence[Item]]],
        states: dict[tuple[str, str], ItemState],
    ) -> None:
        """Give the time that is left to open findings that it can decide."""
        items = {
            (paper.name, item.campaign): (paper, item, states[paper.name, item.name])
            for paper, held in chosen
            for item in held
            if states[paper.name, item.name].runs
        }
        papers = [
            open_paper(paper, self.results, {one for name, one in items if name == paper.name})
            for paper, _ in chosen
        ]
        made = plan(papers, GIVEN_AWAY * self._left_s())
        for line in made.words():
            note(line)
        measured = {one.paper.name: one.measured for one in papers}
        for (name, campaign), count in made.blocks.items():
            held = measured[name][campaign]
            if count * block_s(held) > self._left_s():
                note(f"{campaign}: no second stage: too little of the budget is left for it")
                continue
            settings = settings_of(held.run, held.blocks.first + count)
            note(f"{campaign}: second stage, {count} repetitions more")
            self._execute(items[name, campaign], settings, self._left_s(), resume=True)

    def _begun(self, paper: Paper, item: Item) -> Path | None:
        """The item's last run, which is gone on with."""
        if self.again and item.campaign not in self.ran:
            return None
        return latest(folder_of(paper, self.results), item.campaign)

    def _is_done(self, paper: Paper, item: Item, state: ItemState) -> bool:
        """Return True if the last run of the item finished all trials."""
        if (directory := self._begun(paper, item)) is None:
            return False
        run = open_run(directory)
        progress = progress_of(steps_of(run, state, self.there, self.site), run.statuses())
        self.lacking[item.campaign] = progress.lacking
        done = bool(progress.planned) and not progress.lacking
        if done:
            note(f"{paper.name} {item.name}: finished before, in {directory}")
        return done

    def _share_s(self, campaign: str, waiting: Mapping[str, Due]) -> float | None:
        """The item's share of the rest of the budget in seconds: as many blocks for each one that
        waits, and less for those that no finding compares."""
        if self.budget_s is None:
            return None
        left_s = self._left_s() - (1 - FIRST_SHARE) * self.budget_s
        weights = {name: self._weight(*one) for name, one in waiting.items()}
        return max(0.0, left_s) * weights[campaign] / sum(weights.values())

    def _weight(self, paper: Paper, item: Item, state: ItemState) -> float:
        block = self._coarse_block(item) or _one_block(state)
        shortest_s = scaling.shortest_s(block)
        compared = item.campaign in paper.compared_campaigns
        return scaling.block_s(block, shortest_s, self.around.of) * (COMPARED if compared else 1)

    def _coarse_block(self, item: Item) -> list[Trial]:
        """The trials of one repetition of the item's fewer points, if it names some."""
        if item.coarse and item.name not in self.coarse:
            more = [*self.settings, *item.coarse]
            coarse = state_of(item, self.there, more=more, site=self.site)
            self.coarse[item.name] = _one_block(coarse)
        return self.coarse.get(item.name, [])

    def _run(self, paper: Paper, item: Item, state: ItemState, share_s: float | None) -> None:
        settings = [*state.settings, *self.settings]
        directory = self._begun(paper, item)
        resume = directory is not None
        if directory is not None:
            settings = settings_of(open_run(directory))
            lacking = self.lacking.get(item.campaign, ())
            words, expected_s = "goes on as it was begun", sum(map(self._trial_s, lacking))
        else:
            scale = self._scale(item, state, share_s)
            settings += scale.settings
            words, expected_s = scale.words, scale.expected_s
        if expected_s:
            words += f", about {format_duration(expected_s)}"
        limit_s = share_s
        if share_s is not None and expected_s <= share_s:
            limit_s = min(TOLERANCE * share_s, self._left_s())
        elif share_s is not None:
            words += f"; ends with its share of the budget, {format_duration(share_s)}"
        note(f"{paper.name} {item.name}: {words}{'; ' if state.notes else ''}"
             f"{'; '.join(state.notes)}")  # fmt: skip
        self._execute((paper, item, state), settings, limit_s, resume=resume)

    def _trial_s(self, trial: Trial) -> float:
        """The expected time of the trial in seconds."""
        return usual_time_s(trial) + self.around.of(trial)

    def _execute(
        self, what: Due, settings: list[str], limit_s: float | None, *, resume: bool
    ) -> None:
        """Run the item's campaign, and begin no trial that would end after so long."""
        paper, item, state = what
        began = time.monotonic()
        too_long_s = []

        def may_begin(trial: Trial) -> bool:
            if limit_s is not None and time.monotonic() - began + self._trial_s(trial) > limit_s:
                too_long_s.append(self._trial_s(trial))
            return not too_long_s

        try:
            campaign = find_campaign(item.campaign, self.there.known, settings)
            with CampaignProgress(quiet=self.quiet) as progress:
                done = execute(campaign, self.there, Request(
                    campaign_text=source_text(item.campaign),
                    observer=Observers([progress, Learner(self.around)]),
                    say=self._note_once, overrides=settings, resume=resume, quiet=True,
                    results=folder_of(paper, self.results), testbed=self.testbed,
                    baseline=self.budget_s is None, may_begin=may_begin,
                ))  # fmt: skip
        except BusyError:  # the next item would also fail
            raise
        except SwitchmarkError as error:
            self.failed += 1
            for line in str(error).splitlines():
                note(f"{paper.name} {item.name}: {line}")
            return
        self.ran.add(item.campaign)
        self.open.pop(item.campaign, None)
        failed, count = done.statuses.count("failed"), len(done.statuses)
        words = (
            f"{count - failed} trials finished, {failed} failed, in "
            f"{format_duration(time.monotonic() - began)}"
        )
        if too_long_s:
            self.open[item.campaign] = what
            words += "; its share of the budget ends before a trial of about "
            words += format_duration(too_long_s[0])
            if count:
                steps = steps_of(open_run(done.directory), state, self.there, self.site)
                progressed = progress_of(steps, done.ended)
                self.lacking[item.campaign] = progressed.lacking
                words = f"partly, {progressed.words}; {words}"
        note(f"{paper.name} {item.name}: {words}")

    def _note_once(self, words: str) -> None:
        """Print a campaign's remark once: many items leave out the same switches for the same
        reason."""
        said = words.partition(": ")[2]
        if said not in self.said:
            note(words)
        self.said.add(said)

    def _scale(self, item: Item, state: ItemState, share_s: float | None) -> scaling.Scale:
        assert state.campaign is not None
        if share_s is None:
            return scaling.Scale((), scaling.FULL, 0.0)
        return scaling.fit(
            state.campaign, _one_block(state), share_s, self.around.of, item.coarse,
            self._coarse_block(item),
        )  # fmt: skip


def _one_block(state: ItemState) -> list[Trial]:
    """The trials of one repetition, as they would run here."""
    return [step.plan.trial for step in state.steps if step.plan.trial.repetition == 0]
