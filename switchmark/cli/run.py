"""`switchmark run`: measure a whole campaign, store every trial, show what came out.

A finished trial is stored before the next begins; `--resume` goes on where the last run of
the campaign stopped, and repeats nothing that is finished.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from switchmark.campaign.find import find_campaign, source_text
from switchmark.campaign.installed import installed
from switchmark.campaign.model import Campaign
from switchmark.cli.output import format_duration, note, print_json
from switchmark.cli.progress import CampaignProgress
from switchmark.errors import UsageError
from switchmark.method.campaign import Step, measuring_time_s, run_campaign
from switchmark.method.plan import check_available, plan_steps
from switchmark.results.record import Record
from switchmark.results.store import DEFAULT_ROOT, Run, find_latest
from switchmark.testbed.clean import clean_stale
from switchmark.testbed.facts import gather, tool_versions
from switchmark.testbed.session import open_session

EPILOG = """
Examples:
  switchmark run quick                         three switches, two sizes, in minutes
  switchmark run my-campaign.yaml --report     and write the HTML report
  switchmark run quick --resume                go on where the last run stopped
  switchmark run quick --set duration=2s --set repetitions=1
  switchmark run quick --json > records.json
"""


def command(
    campaign: Annotated[
        str, typer.Argument(help="A built-in campaign, a YAML file, or a notation in quotes.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Win over the file; may be repeated."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish the last run of this campaign.")
    ] = False,
    results: Annotated[
        Path, typer.Option("--results", help="Where results directories are kept.")
    ] = DEFAULT_ROOT,
    report: Annotated[
        bool, typer.Option("--report", help="Write the HTML report at the end.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Measure a campaign and store a record for every trial.

    Exit code 0 when every trial finished, 1 when some failed, 3 when a switch or an
    environment of the campaign cannot run on this machine.
    """
    given = overrides or []
    there = installed()
    wanted = find_campaign(campaign, there.known, given)
    steps = plan_steps(wanted, there)
    check_available(steps)
    text = source_text(campaign)
    with _open_run(wanted, text, given, results, resume=resume) as run:
        made = _measure(run, wanted, steps, quiet=quiet)
        records = list(run.records())
    if json:
        print_json(records)
    else:
        _show(run.directory, made)
    if report:
        _report(run.directory)
    return 1 if any(record.status == "failed" for record in records) else 0


def _open_run(
    campaign: Campaign, text: str, overrides: list[str], root: Path, *, resume: bool
) -> Run:
    host = asdict(gather())
    settings = {"set": overrides}
    if not resume:
        return Run.create(
            root,
            campaign=campaign.name,
            campaign_text=text,
            definition=campaign.model_dump(mode="json"),
            settings=settings,
            host=host,
        )
    latest = find_latest(root, campaign.name)
    if latest is None:
        raise UsageError(
            f"{root}: no run of campaign {campaign.name} to resume; leave out --resume"
        )
    return Run.resume(latest, campaign_text=text, settings=settings, host=host)


def _measure(run: Run, campaign: Campaign, steps: list[Step], *, quiet: bool) -> list[Record]:
    for cleaned in clean_stale():
        note(f"cleaned up after a bench that was killed: {cleaned}")
    finished = run.finished_ids()
    todo = [step for step in steps if step.plan.trial.id not in finished]
    time_s = sum(measuring_time_s(step.plan) for step in todo)
    if not quiet:
        done = f" ({len(steps) - len(todo)} finished before)" if len(todo) < len(steps) else ""
        note(
            f"{campaign.name}: {len(todo)} trials{done}, {format_duration(time_s)} of measuring; "
            f"results in {run.directory}"
        )
    versions = tool_versions()
    with open_session() as session, CampaignProgress(quiet=quiet) as progress:
        return run_campaign(
            session,
            run,
            campaign.name,
            steps,
            lambda: asdict(gather()) | {"tools": versions},
            progress,
        )


def _show(directory: Path, made: list[Record]) -> None:
    from switchmark.cli.show import show_run

    failed = sum(record.status == "failed" for record in made)
    note(f"{len(made) - failed} trials finished, {failed} failed; results in {directory}\n")
    show_run(directory)


def _report(directory: Path) -> None:
    from switchmark.report.html import write_report

    note(f"report: {write_report(directory)}")
