"""The reproduction of a paper as one page: the findings, then the items, then both machines.

It is a single HTML file with its drawings, or Markdown for the documentation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup, escape

from switchmark.campaign.find import find_campaign
from switchmark.campaign.installed import Installed
from switchmark.remote.site import Site
from switchmark.report.page import templates
from switchmark.reproduction.comparison_table import PaperLine, lines_of
from switchmark.reproduction.draw import draw
from switchmark.reproduction.findings import JudgedFinding, judge_all
from switchmark.reproduction.paper import Item, Paper
from switchmark.reproduction.progress import progress_of, steps_of
from switchmark.reproduction.run import (
    MeasuredCampaign,
    read_guests,
    read_measured,
    rows_of,
)
from switchmark.reproduction.second_stage import with_outlook
from switchmark.reproduction.state import ItemState, state_of
from switchmark.results.certified import certified, of_rows
from switchmark.results.findings import FindingVerdict
from switchmark.results.origins import read_origins
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.results.times import times_of
from switchmark.version import full_version

_TEMPLATES = Path(__file__).parent / "template"
_CODE = re.compile(r"`([^`<>]+)`")
_SHARED_MARKS = ("disturbed", "oversubscribed", "schedule-missed")  # marks of a shared machine


@dataclass(frozen=True, slots=True)
class ItemOnPage:
    """An item with its content on the page."""

    item: Item
    state: ItemState
    lines: tuple[PaperLine, ...]
    svg: str | None
    scale: str  # settings that differ from the paper
    notes: tuple[str, ...]
    instead: Literal["none", "some", "all"] = "none"  # how many of its switches are substitutes
    guests: tuple[PaperLine, ...] = ()  # lines of emulated guests, which only prove that it works
    part: str = ""  # progress of an unfinished run

    @property
    def measured(self) -> bool:
        """True if it has figures of this machine."""
        return any(line.is_measured for line in self.lines)

    @property
    def valid(self) -> bool:
        """True if one of these figures is valid."""
        return any(line.is_valid for line in self.lines)

    @property
    def word(self) -> str:
        """The item's state in a few words."""
        return f"{self._word}, partly: {self.part}" if self.part else self._word

    @property
    def _word(self) -> str:
        if self.item.unsaid:
            instead = "; the figures below have chosen settings" if self.measured else ""
            return f"impossible: {self.item.unsaid}{instead}"
        if self.measured:
            return self._as_measured
        if self.guests:
            return "shown in an emulated guest"
        if self.state.runs:
            return "can run here, not measured yet"
        return "planned for the paper's machine"

    @property
    def _as_measured(self) -> str:
        if not self.valid:
            return "measured here, no figure is valid"
        if self.instead == "all":
            return "a substitute was measured here"
        stand_ins = ", with substitutes" if self.state.notes or self.instead == "some" else ""
        rest = ", except for missing parts" if self.item.missing else ""
        return f"reproduced here{stand_ins}{rest}"


@dataclass(frozen=True, slots=True)
class PaperPage:
    """A paper with its measured items."""

    paper: Paper
    items: tuple[ItemOnPage, ...]
    findings: tuple[JudgedFinding, ...]
    hosts: tuple[Mapping[str, Any], ...]  # facts of this machine at each run
    other: Mapping[str, Any]  # facts of the remote host; empty without one
    made_by: str  # versions and dates; empty if nothing was measured
    certified: str  # certificate of the measurements
    measured: Mapping[str, MeasuredCampaign]  # the paper's runs, by campaign

    @property
    def counts(self) -> str:
        """The number of findings for each verdict."""
        counts = Counter(judged.verdict for judged in self.findings)
        plural = {FindingVerdict.HOLDS: "hold"} if counts[FindingVerdict.HOLDS] > 1 else {}
        return ", ".join(
            f"{counts[verdict]} {plural.get(verdict, verdict.value)}"
            for verdict in FindingVerdict
            if counts[verdict]
        )

    @property
    def trust(self) -> str:
        """The numbers of figures with the most important marks."""
        marks = [line.marks for item in self.items for line in item.lines if line.marks]
        counts = {name: sum(name in each for each in marks) for name in _SHARED_MARKS}
        texts = [f"`{name}` {count}" for name, count in counts.items() if count]
        return f"Marks of the {len(marks)} figures: {', '.join(texts)}." if texts else ""

    @property
    def machine(self) -> str:
        """This machine in a line, with its changes between runs, and the remote host, if any."""
        if not self.hosts:
            return "nothing was measured yet"
        other = f"; the other host: {_machine(self.other)}" if self.other else ""
        return "; later ".join(dict.fromkeys(map(_machine, self.hosts))) + other


def _machine(host: Mapping[str, Any]) -> str:
    cpus = host.get("usable_cpus") or ()
    memory = host.get("memory_total_mb")
    parts = [
        str(host.get("cpu_model") or "CPU unknown"),
        f"{len(cpus)} CPUs for the bench",
        f"{round(memory / 1024)} GiB" if memory else "",
        f"Linux {host.get('kernel', 'unknown')}",
        str(host.get("distribution") or ""),
        f"virtual ({host['virtualised']})" if host.get("virtualised") else "",
    ]
    return ", ".join(part for part in parts if part)


def make_page(
    paper: Paper,
    installed: Installed,
    results: Path,
    items: Sequence[Item] | None = None,
    states: Mapping[str, ItemState] | None = None,
    site: Site | None = None,
) -> PaperPage:
    """Read the runs of the paper, judge its findings, and draw its items."""
    chosen = list(items or paper.items)
    measured, guests = read_measured(paper, results), read_guests(paper, results)
    folder = results / "reproduce" / paper.name / "figures"
    shown = [
        _item_on_page(item, installed, measured, guests, folder, states or {}, site)
        for item in chosen
    ]
    known = {**(states or {}), **{part.item.name: part.state for part in shown}}
    can_run = {
        name
        for item in paper.items
        for name in (item.name, item.campaign)
        if not rows_of(item, measured) and (known.get(item.name) or state_of(item, installed)).runs
    }
    judged = judge_all(paper.findings, paper.items, measured, can_run)
    runs = sorted((latest.run for latest in measured.values()), key=lambda run: run.info.started_at)
    return PaperPage(
        paper,
        tuple(shown),
        tuple(with_outlook(paper, finding, measured) for finding in judged),
        tuple(run.info.host for run in runs),
        _other_host(measured),
        _made_by(runs),
        certified(of_rows(row for campaign in measured.values() for row in campaign.rows)),
        measured,
    )


def _made_by(runs: Sequence[Run]) -> str:
    """Return the versions of switchmark and the engine, and the days of the runs."""
    if not runs:
        return ""
    origins = [(run, origin) for run in runs for origin in read_origins(run).values()]
    versions = dict.fromkeys(
        origin.switchmark or run.info.switchmark_version for run, origin in origins
    )
    engines = dict.fromkeys(origin.engine for _, origin in origins if origin.engine)
    days = {run.info.started_at[:10] for run in runs}
    days |= {f"{moment:%Y-%m-%d}" for run in runs for moment in run.resumed_at()}
    between = " to ".join(dict.fromkeys((min(days), max(days))))
    engine = f", engine {' and '.join(engines)}" if engines else ""
    return f"switchmark {' and '.join(versions)}{engine}, {between}"


def _other_host(measured: Mapping[str, MeasuredCampaign]) -> Mapping[str, Any]:
    """Return the facts of the remote host; empty without one."""
    for campaign in measured.values():
        if any(row.trial.location == "remote" for row in campaign.rows):
            for record in campaign.run.records():
                if record.far_host is not None:
                    return record.far_host.facts
    return {}


def _item_on_page(
    item: Item,
    installed: Installed,
    measured: Mapping[str, MeasuredCampaign],
    guests: Sequence[MeasuredCampaign],
    folder: Path,
    states: Mapping[str, ItemState],
    site: Site | None,
) -> ItemOnPage:
    rows = rows_of(item, measured)
    latest = measured.get(item.campaign)
    campaign = find_campaign(item.campaign, installed.known)
    state = states.get(item.name) or state_of(item, installed)
    lines = lines_of(item, rows, campaign)
    svg = None
    if latest is not None and rows:
        svg = draw(item, rows, campaign, folder, partial(times_of, latest.run))
    scale = ", ".join(latest.scale) if latest else ""
    failures = dict.fromkeys(message for row in rows for message in row.failures)
    notes = [*filter(None, [item.unsaid])]
    notes += [f"missing: {part}" for part in item.missing]
    notes += [f"left out: {contender}" for contender in state.left_out]
    notes += [f"failed: {message}" for message in failures]
    inside = [row for run in guests for row in rows_of(item, {run.run.info.campaign: run})]
    proven = [line for line in lines_of(item, inside, campaign) if line.marks] if inside else []
    part = ""
    if latest is not None and not latest.is_surely_whole:
        progress = progress_of(steps_of(latest.run, state, installed, site), latest.statuses)
        part = progress.words if progress.is_part else ""
    return ItemOnPage(
        item, state, tuple(lines), svg, scale, tuple(notes), _instead(item, rows),
        tuple(proven), part,
    )  # fmt: skip


def _instead(item: Item, rows: Sequence[SummaryRow]) -> Literal["none", "some", "all"]:
    """Return how many of the measured switches are substitutes."""
    switches = {row.trial.switch for row in rows if row.finished}
    if not switches & item.instead.keys():
        return "none"
    return "all" if switches <= item.instead.keys() else "some"


def as_html(pages: Sequence[PaperPage]) -> str:
    """Return the page as a single file without references."""
    environment = templates(_TEMPLATES)
    environment.filters["svg"] = lambda text: Markup(text[text.index("<svg") :])
    environment.filters["code"] = _with_code
    template = environment.get_template("reproduction.html.j2")
    return template.render(pages=pages, version=full_version())


def _with_code(text: str) -> Markup:
    """Return the text as HTML, with text in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def as_markdown(pages: Sequence[PaperPage]) -> str:
    """Return the findings and items of every paper as Markdown tables, for docs/."""
    environment = templates(_TEMPLATES, autoescape=False, keep_trailing_newline=True)
    environment.filters["cell"] = lambda text: str(text).replace("|", "\\|").replace("\n", " ")
    template = environment.get_template("reproduction.md.j2")
    return template.render(pages=pages, version=full_version())
