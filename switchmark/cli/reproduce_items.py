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
COMPARED = 4  # factor on the weight of an item that a finding compares


Due = tuple[Paper, Item, ItemState]


@dataclass
class ItemRunner:
    """Runs items one after the other, each scaled to its share of the time left."""

    installed: Installed
    results: Path
    budget_s: float | None
    settings: list[str]
    testbed: Path | None
    site: Site | None
    again: bool
    quiet: bool
    began: float = field(default_factory=time.monotonic)
    around: Around = field(default_factory=Around)  # learns while trials run
    coarse: dict[str, list[Trial]] = field(default_factory=dict)
    lacking: dict[str, tuple[Trial, ...]] = field(default_factory=dict)  # missing in begun runs
    open: dict[str, Due] = field(default_factory=dict)  # items of the budget that are not finished
    ran: set[str] = field(default_factory=set)  # the campaigns that were run
    failed: int = 0
    printed: set[str] = field(default_factory=set)  # remarks

    def run(
        self,
        chosen: Sequence[tuple[Paper, Sequence[Item]]],
        states: dict[tuple[str, str], ItemState],
    ) -> int:
        """Run all items that can run, and return the number of failed items."""
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
                    f"{paper.name} {item.name}: not begun yet, because its share of the budget is "
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
        """Yield the latest run of each item."""
        for paper in papers:
            for campaign in dict.fromkeys(item.campaign for item in paper.items):
                if (run := latest(folder_of(paper, self.results), campaign)) is not None:
                    yield run

    def _run_open_items(self) -> None:
        """Give the time left to items whose shares were too small."""
        for paper, item, state in list(self.open.values()):
            if (left_s := self._left_s()) >= LEAST_SHARE_S:
                self._run(paper, item, state, left_s)
        if self.open:
            names = ", ".join(f"{paper.name} {item.name}" for paper, item, _ in self.open.values())
            note(f"the budget is spent; the same command continues with {names}")

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
            for paper, paper_items in chosen
            for item in paper_items
            if states[paper.name, item.name].runs
        }
        papers = [
            open_paper(paper, self.results, {one for name, one in items if name == paper.name})
            for paper, _ in chosen
        ]
        stage = plan(papers, GIVEN_AWAY * self._left_s())
        for line in stage.words():
            note(line)
        measured = {one.paper.name: one.measured for one in papers}
        for (name, campaign), count in stage.blocks.items():
            item = measured[name][campaign]
            if count * block_s(item) > self._left_s():
                note(f"{campaign}: no second stage: too little of the budget is left for it")
                continue
            settings = settings_of(item.run, item.blocks.first + count)
            note(f"{campaign}: second stage, {count} repetitions more")
            self._execute(items[name, campaign], settings, self._left_s(), resume=True)

    def _begun(self, paper: Paper, item: Item) -> Path | None:
        """Return the item's last run, which will be continued; None to start a new run."""
        if self.again and item.campaign not in self.ran:
            return None
        return latest(folder_of(paper, self.results), item.campaign)

    def _is_done(self, paper: Paper, item: Item, state: ItemState) -> bool:
        """Return True if the last run of the item finished all trials."""
        if (directory := self._begun(paper, item)) is None:
            return False
        run = open_run(directory)
        progress = progress_of(steps_of(run, state, self.installed, self.site), run.statuses())
        self.lacking[item.campaign] = progress.lacking
        done = bool(progress.planned) and not progress.lacking
        if done:
            note(f"{paper.name} {item.name}: finished before, in {directory}")
        return done

    def _share_s(self, campaign: str, waiting: Mapping[str, Due]) -> float | None:
        """Return the item's share of the remaining budget in seconds. All waiting items get the
        same number of blocks, and items that no finding compares get fewer."""
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
        """Return the trials of one repetition of the item's reduced points, if it has them."""
        if item.coarse and item.name not in self.coarse:
            more = [*self.settings, *item.coarse]
            coarse = state_of(item, self.installed, more=more, site=self.site)
            self.coarse[item.name] = _one_block(coarse)
        return self.coarse.get(item.name, [])

    def _run(self, paper: Paper, item: Item, state: ItemState, share_s: float | None) -> None:
        settings = [*state.settings, *self.settings]
        directory = self._begun(paper, item)
        resume = directory is not None
        if directory is not None:
            settings = settings_of(open_run(directory))
            lacking = self.lacking.get(item.campaign, ())
            text, expected_s = "continues as it was begun", sum(map(self._trial_s, lacking))
        else:
            scale = self._scale(item, state, share_s)
            settings += scale.settings
            text, expected_s = scale.changes, scale.expected_s
        if expected_s:
            text += f", about {format_duration(expected_s)}"
        limit_s = share_s
        if share_s is not None and expected_s <= share_s:
            limit_s = min(TOLERANCE * share_s, self._left_s())
        elif share_s is not None:
            text += f"; ends with its share of the budget, {format_duration(share_s)}"
        note(f"{paper.name} {item.name}: {text}{'; ' if state.notes else ''}"
             f"{'; '.join(state.notes)}")  # fmt: skip
        self._execute((paper, item, state), settings, limit_s, resume=resume)

    def _trial_s(self, trial: Trial) -> float:
        """Return the expected time of the trial in seconds."""
        return usual_time_s(trial) + self.around.of(trial)

    def _execute(
        self, due: Due, settings: list[str], limit_s: float | None, *, resume: bool
    ) -> None:
        """Run the item's campaign, and begin no trial that would end after the limit."""
        paper, item, state = due
        began = time.monotonic()
        too_long_s = []

        def may_begin(trial: Trial) -> bool:
            if limit_s is not None and time.monotonic() - began + self._trial_s(trial) > limit_s:
                too_long_s.append(self._trial_s(trial))
            return not too_long_s

        try:
            campaign = find_campaign(item.campaign, self.installed.known, settings)
            with CampaignProgress(quiet=self.quiet) as progress:
                done = execute(campaign, self.installed, Request(
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
        text = (
            f"{count - failed} trials finished, {failed} failed, in "
            f"{format_duration(time.monotonic() - began)}"
        )
        if too_long_s:
            self.open[item.campaign] = due
            text += "; its share of the budget ends before a trial of about "
            text += format_duration(too_long_s[0])
            if count:
                steps = steps_of(open_run(done.directory), state, self.installed, self.site)
                progressed = progress_of(steps, done.ended)
                self.lacking[item.campaign] = progressed.lacking
                text = f"partly, {progressed.words}; {text}"
        note(f"{paper.name} {item.name}: {text}")

    def _note_once(self, text: str) -> None:
        """Print a campaign's remark once, because many items leave out the same switches."""
        remark = text.partition(": ")[2]
        if remark not in self.printed:
            note(text)
        self.printed.add(remark)

    def _scale(self, item: Item, state: ItemState, share_s: float | None) -> scaling.Scale:
        assert state.campaign is not None
        if share_s is None:
            return scaling.Scale((), scaling.FULL, 0.0)
        return scaling.fit(
            state.campaign, _one_block(state), share_s, self.around.of, item.coarse,
            self._coarse_block(item),
        )  # fmt: skip


def _one_block(state: ItemState) -> list[Trial]:
    """Return the trials of one repetition, as they would run here."""
    return [step.plan.trial for step in state.steps if step.plan.trial.repetition == 0]
