"""`switchmark reproduce`: measure the tables and figures of a paper, and compare them with it.

Each item is scaled to its share of the time and runs as a separate campaign, which can be resumed,
shown and compared; one page shows all items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from switchmark.atomic_files import write_atomically
from switchmark.campaign.find import find_campaign
from switchmark.campaign.installed import Installed, installed
from switchmark.cli import complete
from switchmark.cli.grouped_help import MEASURE, OUTPUT
from switchmark.cli.namespaces import Private
from switchmark.cli.options import Quiet, ResultsIn, TestbedFile, seconds_of
from switchmark.cli.output import note, print_line, print_table, writing
from switchmark.cli.reproduce_items import FIRST_SHARE, LEAST_SHARE_S, ItemRunner
from switchmark.errors import UsageError
from switchmark.model.choices import MAX_TIME_S
from switchmark.remote.site import Site
from switchmark.reproduction.paper import Item, Paper, paper_names, read_paper
from switchmark.reproduction.state import ItemState, state_of, try_kvm
from switchmark.results import DEFAULT_ROOT
from switchmark.testbed.testbed_file import find_testbed

EPILOG = """
Examples:
  switchmark reproduce ara2021 --list           the items that can run here
  switchmark reproduce ara2021 --budget 30m     all items, scaled to this time
  switchmark reproduce ara2021 --list --budget 1h
  switchmark reproduce dagar2017 table5 table6  two items, as in the paper
  switchmark reproduce zhang2019 --only-report  write the page again
  switchmark reproduce all --list

Finished trials are stored: the same command continues, and --again measures
everything again. With --budget, no trial begins that would end too late; the
page then names the items that are incomplete.
"""
ALL = "all"


def command(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help=f"{', '.join(paper_names())}, or `all`.",
            autocompletion=complete.papers,
        ),
    ],
    items: Annotated[
        list[str] | None, typer.Argument(metavar="ITEM", help="Only these items.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="TIME",
            help="Scale the items to this time, for example 30m.",
            rich_help_panel=MEASURE,
        ),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="List the items that can run here, and measure nothing.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="Repeat finished trials.", rich_help_panel=MEASURE),
    ] = False,
    only_report: Annotated[
        bool, typer.Option("--only-report", help="Write the page, and measure nothing.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a key of all items; can be repeated.",
            rich_help_panel=MEASURE,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="The HTML page (default: reproduce/PAPER.html in the folder of --results).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            help="Also write the page as Markdown.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    results: ResultsIn = DEFAULT_ROOT,
    _private: Private = False,
    testbed: TestbedFile = None,
    quiet: Quiet = False,
) -> int:
    """Measure the tables and figures of a paper on this machine, and compare them with it.

    The command writes one page. It shows which findings of the paper hold on this machine, each
    figure with the published values, and each table with both values side by side.
    """
    chosen = _chosen(paper, items or [])
    budget_s = None
    if budget is not None:
        budget_s = seconds_of("--budget", budget.replace("min", "m"), LEAST_SHARE_S, MAX_TIME_S)
    installation = installed()
    if settings:
        _check_settings([item for _, items in chosen for item in items], installation, settings)
    machines = find_testbed(testbed)
    site = None if machines is None else Site(machines)
    if not (listing or only_report):
        try_kvm([item for _, items in chosen for item in items])
    try:
        states = {
            (each.name, item.name): state_of(item, installation, more=settings or (), site=site)
            for each, paper_items in chosen
            for item in paper_items
        }
        if listing:
            _print_states(chosen, states)
            if budget_s is not None:
                _print_second_stage(chosen, states, results, budget_s)
            return 0
        failed = 0
        if not only_report:
            runner = ItemRunner(
                installation,
                results,
                budget_s,
                settings or [],
                testbed,
                site,
                again=again,
                quiet=quiet,
            )
            failed = runner.run(chosen, states)
        _write(chosen, installation, states, site, results, html, markdown)
    finally:
        if site is not None and (text := site.close()):
            note(f"{site.testbed.far}: {text}")
    return 1 if failed else 0


def _chosen(name: str, items: Sequence[str]) -> list[tuple[Paper, list[Item]]]:
    if name == ALL:
        if items:
            raise UsageError("reproduce all: items belong to one paper; name it")
        return [(paper, list(paper.items)) for paper in map(read_paper, paper_names())]
    paper = read_paper(name)
    return [(paper, [paper.item(item) for item in items] or list(paper.items))]


def _check_settings(
    items: Sequence[Item], installation: Installed, settings: Sequence[str]
) -> None:
    """Raise UsageError if no item can take the settings."""
    refused = None
    for item in items:
        try:
            find_campaign(item.campaign, installation.known, settings)
            return
        except UsageError as error:
            refused = refused or error
    if refused is not None:
        raise refused


def _print_states(
    chosen: Sequence[tuple[Paper, Sequence[Item]]], states: dict[tuple[str, str], ItemState]
) -> None:
    for paper, items in chosen:
        rows = [
            [item.name, item.section, item.title, states[paper.name, item.name].words]
            for item in items
        ]
        print_table(["item", "section", "content", "here"], rows, title=paper.cited)
        left_out = {item.name: states[paper.name, item.name].left_out for item in items}
        for reason, names in _by_reason(left_out):
            print_line(f"left out of {names}: {reason}")
        lacks = {item.name: [*item.missing, *filter(None, [item.unsaid])] for item in items}
        for lacking, names in _by_reason(lacks):
            print_line(f"not as in the paper, in {names}: {lacking}")
        print_line()


def _print_second_stage(
    chosen: Sequence[tuple[Paper, Sequence[Item]]],
    states: dict[tuple[str, str], ItemState],
    results: Path,
    budget_s: float,
) -> None:
    """Print the open findings that would get further blocks, from the present results."""
    from switchmark.reproduction.second_stage import GIVEN_AWAY, open_paper, plan

    papers, is_due = [], False
    for paper, items in chosen:
        able = {item.campaign for item in items if states[paper.name, item.name].runs}
        papers.append(open_paper(paper, results, able))
        is_due = is_due or not able <= papers[-1].measured.keys()
    left_s = budget_s * (1 - FIRST_SHARE if is_due else 1)
    lines = list(plan(papers, GIVEN_AWAY * left_s).words())
    if is_due:
        lines.append(
            f"items that are not measured yet take {FIRST_SHARE:.0%} of the budget; the second "
            "stage is planned after them"
        )
    for line in lines or ["second stage: no finding that was tried is open"]:
        print_line(line)


def _by_reason(reasons: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return each reason once, with its items."""
    items: dict[str, list[str]] = {}
    for name, item_reasons in reasons.items():
        for reason in item_reasons:
            items.setdefault(reason, []).append(name)
    return [(reason, ", ".join(names)) for reason, names in items.items()]


def _write(
    chosen: Sequence[tuple[Paper, Sequence[Item]]],
    installation: Installed,
    states: dict[tuple[str, str], ItemState],
    site: Site | None,
    results: Path,
    html: Path | None,
    markdown: Path | None,
) -> None:
    from switchmark.reproduction.page import as_html, as_markdown, make_page

    pages = [
        make_page(
            paper,
            installation,
            results,
            items,
            {item.name: states[paper.name, item.name] for item in items},
            site,
        )
        for paper, items in chosen
    ]
    name = chosen[0][0].name if len(chosen) == 1 else ALL
    target = html or results / "reproduce" / f"{name}.html"
    with writing("--html", target):
        if html is None:  # the default folder may not exist yet
            target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, as_html(pages))
    if markdown is not None:
        with writing("--markdown", markdown):
            write_atomically(markdown, as_markdown(pages))
    for page in pages:
        print_line(f"{page.paper.cited}: {len(page.findings)} findings: {page.counts}")
        width = max(8, *(len(judged.finding.section) for judged in page.findings))
        for judged in page.findings:
            section = f"{judged.finding.section:<{width}}"
            print_line(f"  {section} {judged.verdict.value:<20} {judged.finding.name}")
    print_line(f"page: {target}")
