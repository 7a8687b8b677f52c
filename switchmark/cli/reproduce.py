"""`switchmark reproduce`: run the tables and figures of a paper, and show them beside what it says.

An item is scaled to its share of the time there is, and runs as a campaign of its own, so that it
can be resumed, shown and compared as any other; one page draws all of them together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from switchmark.campaign.find import find_campaign, source_text
from switchmark.campaign.installed import Installed, installed
from switchmark.cli import complete
from switchmark.cli.options import Quiet, ResultsIn, TestbedFile
from switchmark.cli.output import note, print_line, print_table, writing
from switchmark.cli.progress import CampaignProgress
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.experiment.execute import Request, execute
from switchmark.language import values
from switchmark.language.duration import format_duration
from switchmark.model.choices import MAX_TIME_S
from switchmark.remote.site import Site
from switchmark.reproduction import budget as scaling
from switchmark.reproduction.paper import Item, Paper, paper_names, read_paper
from switchmark.reproduction.run import folder_of, latest
from switchmark.reproduction.state import ItemState, state_of
from switchmark.results.store import DEFAULT_ROOT, open_run
from switchmark.testbed.testbed_file import find_testbed

EPILOG = """
Examples:
  switchmark reproduce ara2021 --list             its items, and what this machine can do of each
  switchmark reproduce ara2021 --budget 30m       all that can run here, scaled to half an hour
  switchmark reproduce dagar2017 table5 table6    two items, as the paper measured them
  switchmark reproduce zhang2019 --only-report    the page again, from what is there
  switchmark reproduce all --list

What was measured is kept: the same command goes on where it stopped, and repeats nothing that is
finished; --anew begins again.
"""
ALL = "all"
LONGEST_S = MAX_TIME_S
LEAST_SHARE_S = 5.0  # of an item


def command(
    paper: Annotated[
        str,
        typer.Argument(help="A paper, or `all`.", autocompletion=complete.papers),
    ],
    items: Annotated[list[str] | None, typer.Argument(help="These items only.")] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="TIME", help="Scale the items to this, e.g. 30m."),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Say what can run here, and measure nothing.")
    ] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Measure again what is finished.")] = False,
    only_report: Annotated[
        bool, typer.Option("--only-report", help="Measure nothing; write the page.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Win over every item; may be repeated."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The HTML page.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="The same as Markdown, too.")
    ] = None,
    results: ResultsIn = DEFAULT_ROOT,
    testbed: TestbedFile = None,
    quiet: Quiet = False,
) -> int:
    """Run the tables and figures of a paper here, beside the published values.

    Writes one page: which of the paper's findings hold on this machine, every figure in the
    paper's own form with the published values drawn in, every table with ours beside theirs.
    """
    chosen = _chosen(paper, items or [])
    budget_s = None if budget is None else _budget_s(budget)
    there = installed()
    machines = find_testbed(testbed)
    site = None if machines is None else Site(machines)
    try:
        states = {
            (one.name, item.name): state_of(item, there, more=settings or (), site=site)
            for one, held in chosen
            for item in held
        }
        if listing:
            _print_states(chosen, states)
            return 0
        failed = 0
        if not only_report:
            runner = _Runner(
                there, results, budget_s, settings or [], testbed, site, anew=anew, quiet=quiet
            )
            failed = runner.run(chosen, states)
    finally:
        if site is not None and (words := site.close()):
            note(f"{site.testbed.far}: {words}")
    _write(chosen, there, states, results, output, markdown)
    return 1 if failed else 0


def _chosen(name: str, items: Sequence[str]) -> list[tuple[Paper, list[Item]]]:
    if name == ALL:
        if items:
            raise UsageError("reproduce all: items are of one paper; name it")
        return [(paper, list(paper.items)) for paper in map(read_paper, paper_names())]
    paper = read_paper(name)
    return [(paper, [paper.item(one) for one in items] or list(paper.items))]


def _budget_s(text: str) -> float:
    try:
        return values.seconds(text.replace("min", "m"), LEAST_SHARE_S, LONGEST_S)
    except values.BadValueError as error:
        raise UsageError(f"--budget: {error}") from None


def _print_states(
    chosen: Sequence[tuple[Paper, Sequence[Item]]], states: dict[tuple[str, str], ItemState]
) -> None:
    for paper, items in chosen:
        rows = [
            [item.name, item.section, item.title, states[paper.name, item.name].words]
            for item in items
        ]
        print_table(["item", "section", "what it shows", "here"], rows, title=paper.cited)
        left_out = {item.name: states[paper.name, item.name].left_out for item in items}
        for reason, names in _by_reason(left_out):
            print_line(f"left out of {names}: {reason}")
        for lacking, names in _by_reason({item.name: item.missing for item in items}):
            print_line(f"not as there in {names}: {lacking}")
        print_line()


def _by_reason(reasons: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Each reason once, with the items that it is of."""
    found: dict[str, list[str]] = {}
    for name, held in reasons.items():
        for reason in held:
            found.setdefault(reason, []).append(name)
    return [(reason, ", ".join(names)) for reason, names in found.items()]


class _Runner:
    """Runs items one after the other, each scaled to its share of what time is left."""

    def __init__(
        self,
        there: Installed,
        results: Path,
        budget_s: float | None,
        settings: list[str],
        testbed: Path | None,
        site: Site | None,
        *,
        anew: bool,
        quiet: bool,
    ) -> None:
        self.there, self.results, self.settings = there, results, settings
        self.budget_s, self.testbed, self.site = budget_s, testbed, site
        self.anew, self.quiet = anew, quiet
        self.began = time.monotonic()
        self.overhead_s = scaling.OVERHEAD_S  # around a trial; learnt as they run
        self.failed = 0
        self.said: set[str] = set()

    def run(
        self,
        chosen: Sequence[tuple[Paper, Sequence[Item]]],
        states: dict[tuple[str, str], ItemState],
    ) -> int:
        """Run all that can; returns how many items failed."""
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
            share_s = self._share_s(state, [one for _, _, one in left.values()])
            if share_s is not None and share_s < LEAST_SHARE_S:
                note(f"{paper.name} {item.name}: not begun, the budget is spent; run again for it")
                continue
            del left[campaign]
            self._run(paper, item, state, share_s)
        return self.failed

    def _is_done(self, paper: Paper, item: Item, state: ItemState) -> bool:
        """Whether its last run finished every trial it was to have."""
        directory = None if self.anew else latest(folder_of(paper, self.results), item.campaign)
        if directory is None:
            return False
        run = open_run(directory)
        given = [str(one) for one in run.info.settings.get("set", [])]
        more = _more(given, state)
        planned = state_of(item, self.there, more=more, site=self.site).steps
        done = bool(planned) and {step.plan.trial.id for step in planned} <= run.finished_ids()
        if done:
            note(f"{paper.name} {item.name}: finished before, in {directory}")
        return done

    def _share_s(self, state: ItemState, waiting: Sequence[ItemState]) -> float | None:
        """What is left of the budget, by the trials that are waiting for it."""
        if self.budget_s is None:
            return None
        left_s = self.budget_s - (time.monotonic() - self.began)
        return max(0.0, left_s) * _weight(state) / sum(map(_weight, waiting))

    def _run(self, paper: Paper, item: Item, state: ItemState, share_s: float | None) -> None:
        settings = [*state.settings, *self.settings]
        directory = None if self.anew else latest(folder_of(paper, self.results), item.campaign)
        resume = directory is not None
        if directory is not None:
            settings = [str(one) for one in open_run(directory).info.settings.get("set", [])]
            words = "goes on as it was begun"
        else:
            scale = self._scale(item, state, share_s)
            settings += scale.settings
            words = f"{scale.words}, about {format_duration(scale.expected_s)}"
        note(f"{paper.name} {item.name}: {words}{'; ' if state.notes else ''}"
             f"{'; '.join(state.notes)}")  # fmt: skip
        began = time.monotonic()
        try:
            campaign = find_campaign(item.campaign, self.there.known, settings)
            with CampaignProgress(quiet=self.quiet) as progress:
                done = execute(campaign, self.there, Request(
                    campaign_text=source_text(item.campaign), observer=progress,
                    say=self._note_once, overrides=settings, resume=resume, quiet=True,
                    results=folder_of(paper, self.results), testbed=self.testbed,
                    baseline=share_s is None,
                ))  # fmt: skip
        except SwitchmarkError as error:
            self.failed += 1
            for line in str(error).splitlines():
                note(f"{paper.name} {item.name}: {line}")
            return
        failed, count = done.statuses.count("failed"), len(done.statuses)
        spent_s = time.monotonic() - began
        if count and not resume and not scaling.searches(campaign):
            measuring_s = max(d for s in campaign.sweeps for d in s.duration_s)
            usual_s = scaling.usual_share(campaign)(measuring_s)
            self.overhead_s = max(0.5, spent_s / count - usual_s)
        note(f"{paper.name} {item.name}: {count - failed} trials finished, {failed} "
             f"failed, in {format_duration(spent_s)}")  # fmt: skip

    def _note_once(self, words: str) -> None:
        """What a campaign says: many items leave out the same switches for the same reason."""
        said = words.partition(": ")[2]
        if said not in self.said:
            note(words)
        self.said.add(said)

    def _scale(self, item: Item, state: ItemState, share_s: float | None) -> scaling.Scale:
        assert state.campaign is not None
        if share_s is None:
            return scaling.Scale((), scaling.FULL, 0.0)
        more = [*self.settings, *item.coarse]
        coarse = state_of(item, self.there, more=more, site=self.site)
        return scaling.fit(
            state.campaign, state.trials, share_s, self.overhead_s,
            scaling.usual_share(state.campaign), item.coarse if coarse.runs else (), coarse.trials,
        )  # fmt: skip


def _weight(state: ItemState) -> float:
    """By what time is dealt out: few trials deserve more of it each."""
    return math.sqrt(max(1, state.trials))


def _more(given: Sequence[str], state: ItemState) -> list[str]:
    """What a run was set to beyond the stand-ins."""
    return [one for one in given if one not in state.settings]


def _write(
    chosen: Sequence[tuple[Paper, Sequence[Item]]],
    there: Installed,
    states: dict[tuple[str, str], ItemState],
    results: Path,
    output: Path | None,
    markdown: Path | None,
) -> None:
    from switchmark.reproduction.page import as_html, as_markdown, make_page

    pages = [
        make_page(
            paper,
            there,
            results,
            items,
            {item.name: states[paper.name, item.name] for item in items},
        )
        for paper, items in chosen
    ]
    name = chosen[0][0].name if len(chosen) == 1 else ALL
    target = output or results / "reproduce" / f"{name}.html"
    with writing("--output", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(as_html(pages), encoding="utf-8")
    if markdown is not None:
        with writing("--markdown", markdown):
            markdown.write_text(as_markdown(pages), encoding="utf-8")
    for page in pages:
        print_line(f"{page.paper.cited}: findings: {page.counts}")
        for one in page.findings:
            print_line(f"  {one.finding.section:<8} {one.verdict.value:<20} {one.finding.name}")
    print_line(f"page: {target}")
