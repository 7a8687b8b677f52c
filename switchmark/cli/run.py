"""`switchmark run`: measure a campaign, store a record of each trial, print the summary.

A finished trial is stored before the next one begins. `--resume` continues the last run of the
campaign, and does not repeat finished trials.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from switchmark.campaign.find import find_campaign, source_text
from switchmark.campaign.installed import Installed, installed
from switchmark.cli.ci import BmfFile, JunitFile
from switchmark.cli.grouped_help import MEASURE, OUTPUT, POOL
from switchmark.cli.measure import CommandRequest, measure
from switchmark.cli.namespaces import Private
from switchmark.cli.options import (
    CampaignName,
    NoBaseline,
    Overrides,
    Quiet,
    Recalibrate,
    RecordsAsJson,
    ResultsIn,
    StoreAt,
    TestbedFile,
    ThisNetwork,
    Verbose,
    takes,
)
from switchmark.cli.output import note
from switchmark.cli.pool_options import CredentialFiles, PoolContact
from switchmark.cli.run_in_pool import refuse_options, run_in_pool
from switchmark.host.network.guard_rails import permit
from switchmark.results import DEFAULT_ROOT
from switchmark.results.find import find_latest
from switchmark.results.run_directory import open_run

EPILOG = """
Examples:
  switchmark run quick                    compare three switches in minutes
  switchmark run my-campaign.yaml --report
  switchmark run quick --resume           continue the last run
  switchmark run quick --resume --set budget=10m   10 min in total
  switchmark run quick --set duration=2s --set repetitions=1
  switchmark run quick --json > records.json
  switchmark run my-campaign.yaml --junit verdicts.xml --bmf figures.json
  switchmark run my-campaign.yaml --pool 127.0.0.1:8786
  switchmark run quick --store postgresql://db.lab/bench
  switchmark run my-campaign.yaml --metrics 9464

More: docs/campaigns.md, docs/ci.md, docs/pool.md, docs/store.md,
docs/watching.md

Exit codes:
  0    every trial finished
  1    at least one trial failed; its reason and all finished trials are stored
  2    wrong input
  3    this machine cannot run a switch or an environment of the campaign,
       or the first trials of two contenders failed for the same reason
  4    a figure is proven to violate an expectation of the campaign
  130  interrupted; --resume continues
"""


@takes(CredentialFiles)
def command(
    credentials: CredentialFiles,
    campaign: CampaignName,
    overrides: Overrides = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the last run of this campaign, with the settings of that run; `--set` "
            "changes them. Failed trials are repeated, finished trials are not.",
            rich_help_panel=MEASURE,
        ),
    ] = False,
    results: ResultsIn = DEFAULT_ROOT,
    store: StoreAt = None,
    no_baseline: NoBaseline = False,
    report: Annotated[
        bool,
        typer.Option("--report", help="Write the HTML report at the end.", rich_help_panel=OUTPUT),
    ] = False,
    recalibrate: Recalibrate = False,
    testbed: TestbedFile = None,
    this_network: ThisNetwork = None,
    json: RecordsAsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    junit: JunitFile = None,
    bmf: BmfFile = None,
    pool: Annotated[
        str | None,
        typer.Option(
            "--pool",
            metavar="HOST:PORT",
            help="Measure on a pool of testbeds.",
            rich_help_panel=POOL,
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="With --pool: if the campaign was submitted before and has finished, measure it "
            "again.",
            rich_help_panel=POOL,
        ),
    ] = False,
    _private: Private = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="[ADDRESS:]PORT",
            help="Serve metrics for Prometheus here; without ADDRESS, only to this machine.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> int:
    """Measure a campaign and store a record of each trial.

    On a terminal the command shows the current trial, the medians so far with their intervals, and
    the time left. At the end it prints the comparison, the warnings, and the commands that continue
    the run or show more of its results.
    """
    permit(this_network or [])
    installation = installed()
    given = overrides or []
    if resume:
        given = _settings_to_resume(campaign, installation, results, given)
    found = find_campaign(campaign, installation.known, given)  # checks what the text is read from
    if pool is not None:
        refuse_options(
            {
                "--resume": resume, "--store": store, "--report": report, "--testbed": testbed,
                "--recalibrate": recalibrate, "--json": json, "--metrics": metrics,
            }
        )  # fmt: skip
        return run_in_pool(
            found,
            installation,
            PoolContact(pool=pool, **asdict(credentials)).database(),
            campaign_text=source_text(campaign),
            overrides=given,
            baseline=not no_baseline,
            again=again,
            junit=junit,
            bmf=bmf,
        )
    request = CommandRequest(
        campaign_text=source_text(campaign),
        overrides=given,
        argument=campaign,
        results=results,
        store=store,
        resume=resume,
        baseline=recalibrate or not no_baseline,
        recalibrate=recalibrate,
        report=report,
        testbed=testbed,
        json=json,
        quiet=quiet,
        verbose=verbose,
        junit=junit,
        bmf=bmf,
        metrics=metrics,
    )
    return measure(found, installation, request)


def _settings_to_resume(
    argument: str, installation: Installed, results: Path, given: list[str]
) -> list[str]:
    """The `--set` values of a resumed run: those of its earlier starts, and over them the given
    ones. Without the earlier values, other trials would be planned."""
    from switchmark.cli.run_output import later_settings

    latest = find_latest(results, find_campaign(argument, installation.known).name)
    if latest is None:
        return given
    found = open_run(latest)
    earlier = [*found.info.parsed_settings.set, *later_settings(found)]
    settings = {_key(text): text for text in earlier}
    earlier_settings = [text for key, text in settings.items() if key not in set(map(_key, given))]
    if earlier_settings:
        note(
            "resuming with the settings of earlier starts: --set "
            + " --set ".join(earlier_settings)
        )
    return [*earlier_settings, *given]


def _key(override: str) -> str:
    return override.partition("=")[0].strip()
