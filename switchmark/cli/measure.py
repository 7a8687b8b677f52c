"""The common part of `run` and `trial`: executing a campaign with progress, then printing and
writing its results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from switchmark.campaign.installed import Installed
from switchmark.cli import ci
from switchmark.cli.output import note, note_problems, print_json_list, writing
from switchmark.cli.progress import CampaignProgress
from switchmark.errors import StoppedRun
from switchmark.experiment.campaign import Observer, Observers
from switchmark.experiment.execute import Executed, Request, execute, nobody_waits
from switchmark.model.campaign import CampaignDefinition
from switchmark.results.default_root import DEFAULT_ROOT
from switchmark.results.expectations import expected_of, judge_run
from switchmark.results.store import open_run

if TYPE_CHECKING:
    from switchmark.experiment.store_upload import StoreUpload


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The user's options beside the campaign itself."""

    campaign_text: str  # kept with the results
    overrides: list[str]
    argument: str | None = None  # of `run`; None: another command measures
    results: Path = DEFAULT_ROOT
    store: str | None = None  # the address of one that is to have the records, too
    resume: bool = False
    baseline: bool = True
    recalibrate: bool = False
    report: bool = False
    testbed: Path | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    junit: Path | None = None
    bmf: Path | None = None
    metrics: str | None = None  # where Prometheus finds the campaign: PORT or ADDRESS:PORT


def measure(campaign: CampaignDefinition, there: Installed, wish: Wish) -> int:
    """Measure what is not finished yet; returns the exit code: 4 when an expectation is violated,
    else 1 when a trial failed."""
    ci.check_places(wish.junit, wish.bmf)
    upload = _upload(wish)
    try:
        done = _execute(campaign, there, wish, upload)
    except StoppedRun:
        if upload is not None:
            upload.finish()
        raise
    stored = upload is None or upload.finish()
    if wish.report:
        _report(done.directory)
    violated = _show(done, wish)
    failed = done.statuses.count("failed")
    finished = len(done.statuses) - failed
    trials = "1 trial" if finished == 1 else f"{finished} trials"
    note(f"{trials} finished, {failed} failed; results in {done.directory}")
    if violated:
        return ci.EXIT_VIOLATED
    return 1 if failed or not stored else 0


def _upload(wish: Wish) -> StoreUpload | None:
    if wish.store is None:
        return None
    from switchmark.experiment.store_upload import StoreUpload
    from switchmark.store.address import read_store_address

    return StoreUpload(read_store_address(wish.store), note)


def _execute(
    campaign: CampaignDefinition, there: Installed, wish: Wish, upload: StoreUpload | None
) -> Executed:
    with (
        CampaignProgress(quiet=wish.quiet, verbose=wish.verbose) as progress,
        _watched(wish, campaign) as watched,
    ):
        request = Request(
            campaign_text=wish.campaign_text,
            observer=Observers([progress, *watched, *([upload] if upload else [])]),
            say=note,
            opened=upload.opened if upload else nobody_waits,
            overrides=wish.overrides,
            results=wish.results,
            resume=wish.resume,
            baseline=wish.baseline,
            recalibrate=wish.recalibrate,
            testbed=wish.testbed,
            quiet=wish.quiet,
        )
        return execute(campaign, there, request)


def _watched(
    wish: Wish, campaign: CampaignDefinition
) -> AbstractContextManager[Sequence[Observer]]:
    """What Prometheus reads; nothing of it is loaded where nobody asks."""
    if wish.metrics is None:
        return nullcontext(())
    from switchmark.cli.metrics import serving

    return serving(wish.metrics, campaign)


def _show(done: Executed, wish: Wish) -> bool:
    """Print what was measured, judge what the campaign expects and write the files for CI; returns
    whether an expectation is violated."""
    from switchmark.cli.run_output import print_summary
    from switchmark.results.summary import summary

    run = open_run(done.directory)
    judges = ci.wants_verdicts(run, wish.junit, wish.bmf)
    rows = summary(done.directory) if judges or not wish.json else []
    if wish.json:
        print_json_list(done.records())
    else:
        print_summary(run, rows, rows, wish.argument, is_measured_here=True)
    if not judges:
        return False
    judgements = judge_run(run.info.definition, rows, expected_of(run))
    return ci.give_verdicts(run, rows, judgements, wish.junit, wish.bmf)


def _report(directory: Path) -> None:
    from switchmark.report.html import write_report

    target = directory / "report.html"
    with writing("--report", target):
        problems = write_report(directory, target)
    note_problems(problems)
    note(f"report: {target}")
