"""What `switchmark reproduce` runs: items in turn, each scaled to its share of the time left, then
further blocks of those that findings need which are still open."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.campaign.find import find_campaign, source_text
from switchmark.campaign.installed import Installed
from switchmark.cli.output import note
from switchmark.cli.progress import CampaignProgress
from switchmark.errors import SwitchmarkError
from switchmark.experiment.execute import Request, execute
from switchmark.language.duration import format_duration
from switchmark.model.trial import Trial
from switchmark.remote.site import Site
from switchmark.reproduction import budget as scaling
from switchmark.reproduction.paper import Item, Paper
from switchmark.reproduction.run import folder_of, latest, read_measured
from switchmark.reproduction.second_stage import block_s, open_paper, plan
from switchmark.reproduction.stages import settings_of
from switchmark.reproduction.state import ItemState, state_of
from switchmark.results.store import open_run

LEAST_SHARE_S = 5.0  # of an item
LEAST_SLOWNESS = 0.3
FIRST_SHARE = 0.6  # of the budget; the rest is kept for the second stage
COMPARED = 4  # times the weight of an item that no finding is about


@dataclass
class ItemRunner:
    """Runs items one after the other, each scaled to its share of the time left."""

    there: Installed
    results: Path
    budget_s: float | None
    settings: list[str]
    testbed: Path | None
    site: Site | None
    anew: bool
    quiet: bool
    began: float = field(default_factory=time.monotonic)
    slowness: float = 1.0  # of what goes on around a trial; learnt as they run
    coarse: dict[str, list[Trial]] = field(default_factory=dict)
    lacking: dict[str, int] = field(default_factory=dict)  # trials, of begun runs
    failed: int = 0
    said: set[str] = field(default_factory=set)

    def run(
        self,
        chosen: Sequence[tuple[Paper, Sequence[Item]]],
        states: dict[tuple[str, str], ItemState],
    ) -> int:
        """Run all items that can run; returns how many failed."""
        due: dict[str, tuple[Paper, Item, ItemState]] = {}
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
                    f"{paper.name} {item.name}: not begun: its share of the budget is below "
                    f"{LEAST_SHARE_S:g} s; run again for it"
                )
                continue
            self._run(paper, item, state, share_s)
        if self.budget_s is not None:
            self._second_stage(chosen, states)
        return self.failed

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
        made = plan(papers, self._left_s())
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
            self._execute(*items[name, campaign], settings, resume=True)

    def _begun(self, paper: Paper, item: Item) -> Path | None:
        """The item's last run, which is gone on with."""
        return None if self.anew else latest(folder_of(paper, self.results), item.campaign)

    def _is_done(self, paper: Paper, item: Item, state: ItemState) -> bool:
        """Whether the item's last run finished all of its trials."""
        if (directory := self._begun(paper, item)) is None:
            return False
        run = open_run(directory)
        more = _more(settings_of(run), state)
        planned = state_of(item, self.there, more=more, site=self.site).steps
        lacking = len({step.plan.trial.id for step in planned} - run.finished_ids())
        self.lacking[item.campaign] = lacking
        done = bool(planned) and not lacking
        if done:
            note(f"{paper.name} {item.name}: finished before, in {directory}")
        return done

    def _as_begun(self, paper: Paper, item: Item, share_s: float | None) -> str:
        """What is said of a run that is gone on with: it is not scaled again, and takes what its
        trials took until now."""
        words = "goes on as it was begun"
        held = read_measured(paper, self.results).get(item.campaign)
        count = sum(not row.is_baseline for row in held.rows) if held else 0
        if held is None or not count:
            return words
        left_s = block_s(held) / count * self.lacking[item.campaign]
        words += f", about {format_duration(left_s)}"
        if share_s is None or left_s <= share_s:
            return words
        share = format_duration(share_s)
        return f"{words}, though its share of the budget is {share} (--anew scales it to that)"

    def _share_s(
        self, campaign: str, waiting: Mapping[str, tuple[Paper, Item, ItemState]]
    ) -> float | None:
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
        return scaling.block_s(block, shortest_s, self.slowness) * (COMPARED if compared else 1)

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
            words = self._as_begun(paper, item, share_s)
        else:
            scale = self._scale(item, state, share_s)
            settings += scale.settings
            words = f"{scale.words}, about {format_duration(scale.expected_s)}"
        note(f"{paper.name} {item.name}: {words}{'; ' if state.notes else ''}"
             f"{'; '.join(state.notes)}")  # fmt: skip
        self._execute(paper, item, state, settings, resume=resume)

    def _execute(
        self, paper: Paper, item: Item, state: ItemState, settings: list[str], *, resume: bool
    ) -> None:
        began = time.monotonic()
        try:
            campaign = find_campaign(item.campaign, self.there.known, settings)
            with CampaignProgress(quiet=self.quiet) as progress:
                done = execute(campaign, self.there, Request(
                    campaign_text=source_text(item.campaign), observer=progress,
                    say=self._note_once, overrides=settings, resume=resume, quiet=True,
                    results=folder_of(paper, self.results), testbed=self.testbed,
                    baseline=self.budget_s is None,
                ))  # fmt: skip
        except SwitchmarkError as error:
            self.failed += 1
            for line in str(error).splitlines():
                note(f"{paper.name} {item.name}: {line}")
            return
        failed, count = done.statuses.count("failed"), len(done.statuses)
        spent_s = time.monotonic() - began
        block = _one_block(state_of(item, self.there, more=_more(settings, state), site=self.site))
        if count and block and not resume and scaling.is_known_time(block):
            longest_s = max(trial.duration_s for trial in block)
            around_s = spent_s * len(block) / count - scaling.block_s(block, longest_s, 0.0)
            self.slowness = max(LEAST_SLOWNESS, around_s / scaling.around_s(block))
        note(f"{paper.name} {item.name}: {count - failed} trials finished, {failed} "
             f"failed, in {format_duration(spent_s)}")  # fmt: skip

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
            state.campaign, _one_block(state), share_s, self.slowness, item.coarse,
            self._coarse_block(item),
        )  # fmt: skip


def _one_block(state: ItemState) -> list[Trial]:
    """The trials of one repetition, as they would run here."""
    return [step.plan.trial for step in state.steps if step.plan.trial.repetition == 0]


def _more(given: Sequence[str], state: ItemState) -> list[str]:
    """The settings of a run beyond the stand-ins."""
    return [one for one in given if one not in state.settings]
