"""The common part of `run` and `trial`: executing a campaign with progress, then printing and
writing its results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from switchmark.campaign.installed import Installed
from switchmark.cli import ci
from switchmark.cli.output import note, note_problems, print_json_list, writing
from switchmark.cli.progress import CampaignProgress
from switchmark.errors import StoppedRun
from switchmark.experiment.campaign import Observer, Observers
from switchmark.experiment.execute import Executed, Request, execute
from switchmark.model.campaign import CampaignDefinition
from switchmark.results.expectations import expected_of, judge_run
from switchmark.results.run_directory import open_run

if TYPE_CHECKING:
    from switchmark.experiment.store_upload import StoreUpload


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest(Request):
    """The options of a run that a command starts: also its outputs."""

    argument: str | None = None  # the campaign as `run` got it; None: another command
    store: str | None = None  # the address of a results store that also gets the records
    report: bool = False
    json: bool = False
    verbose: bool = False
    junit: Path | None = None
    bmf: Path | None = None
    metrics: str | None = None  # where Prometheus finds the campaign: PORT or ADDRESS:PORT


def measure(campaign: CampaignDefinition, installation: Installed, request: CommandRequest) -> int:
    """Measure the unfinished trials. Returns the exit code: 4 if an expectation is violated,
    otherwise 1 if a trial failed."""
    ci.check_places(request.junit, request.bmf)
    upload = _upload(request)
    try:
        done = _execute(campaign, installation, request, upload)
    except StoppedRun:
        if upload is not None:
            upload.finish()
        raise
    stored = upload is None or upload.finish()
    if request.report:
        _report(done.directory)
    violated = _show(done, request)
    failed = done.statuses.count("failed")
    finished = len(done.statuses) - failed
    trials = "1 trial" if finished == 1 else f"{finished} trials"
    note(f"{trials} finished, {failed} failed; results in {done.directory}")
    if violated:
        return ci.EXIT_VIOLATED
    return 1 if failed or not stored else 0


def _upload(request: CommandRequest) -> StoreUpload | None:
    if request.store is None:
        return None
    from switchmark.experiment.store_upload import StoreUpload
    from switchmark.store.address import read_store_address

    return StoreUpload(read_store_address(request.store), note)


def _execute(
    campaign: CampaignDefinition,
    installation: Installed,
    request: CommandRequest,
    upload: StoreUpload | None,
) -> Executed:
    with (
        CampaignProgress(quiet=request.quiet, verbose=request.verbose) as progress,
        _watched(request, campaign) as watched,
    ):
        observers = Observers([progress, *watched, *([upload] if upload else [])])
        opened = upload.opened if upload else request.opened
        watched_run = replace(request, observer=observers, say=note, opened=opened)
        return execute(campaign, installation, watched_run)


def _watched(
    request: CommandRequest, campaign: CampaignDefinition
) -> AbstractContextManager[Sequence[Observer]]:
    """The observers for Prometheus, whose libraries are loaded only on request."""
    if request.metrics is None:
        return nullcontext(())
    from switchmark.cli.metrics import serving

    return serving(request.metrics, campaign)


def _show(done: Executed, request: CommandRequest) -> bool:
    """Print what was measured, judge what the campaign expects and write the files for CI; returns
    whether an expectation is violated."""
    from switchmark.cli.run_output import print_summary
    from switchmark.results.summary import summary

    run = open_run(done.directory)
    judges = ci.wants_verdicts(run, request.junit, request.bmf)
    rows = summary(done.directory) if judges or not request.json else []
    if request.json:
        print_json_list(done.records())
    else:
        print_summary(run, rows, rows, request.argument, is_measured_here=True)
    if not judges:
        return False
    judgements = judge_run(run.info.definition, rows, expected_of(run))
    return ci.give_verdicts(run, rows, judgements, request.junit, request.bmf)


def _report(directory: Path) -> None:
    from switchmark.report.html import write_report

    target = directory / "report.html"
    with writing("--report", target):
        problems = write_report(directory, target)
    note_problems(problems)
    note(f"report: {target}")
