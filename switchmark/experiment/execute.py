"""Executes a campaign from its plan to its stored records, for the command line and the API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from switchmark.campaign.installed import Installed
from switchmark.campaign.notation import to_notation
from switchmark.errors import StoppedRun, SwitchmarkError, UnavailableError, UsageError
from switchmark.experiment.block_schedule import CampaignBlocks
from switchmark.experiment.calibration import Calibrations
from switchmark.experiment.campaign import (
    NO_OBSERVER,
    Observer,
    OpenEnd,
    always,
    run_campaign,
    without_collections,
)
from switchmark.experiment.certified import Certificates
from switchmark.experiment.failed_starts import FailedStarts
from switchmark.experiment.pages import check_pages
from switchmark.experiment.prepare import prepare
from switchmark.experiment.repeat import endings, more_blocks
from switchmark.experiment.steps import Step
from switchmark.experiment.time_left import measuring_time_s
from switchmark.formatting import format_duration
from switchmark.host import place, tuning
from switchmark.host.facts import gather, tool_versions
from switchmark.host.host import Session
from switchmark.host.session import open_session
from switchmark.host.undo.clean import clean_stale
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.remote.site import Site
from switchmark.results import DEFAULT_ROOT
from switchmark.results.find import find_latest
from switchmark.results.run_directory import Run, open_run
from switchmark.statistics.defaults import PROVE
from switchmark.testbed.testbed_file import find_testbed, required
from switchmark.version import full_version


def ignore_directory(directory: Path) -> None:
    """Do nothing with the run directory."""


def ignore_remark(remark: str) -> None:
    """Do nothing with a remark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of a run."""

    campaign_text: str  # stored with the results
    observer: Observer = NO_OBSERVER
    say: Callable[[str], None] = ignore_remark  # prints a remark of one line for the user
    overrides: Sequence[str] = ()
    results: Path = DEFAULT_ROOT
    resume: bool = False
    baseline: bool = True
    recalibrate: bool = False
    testbed: Path | None = None
    quiet: bool = False  # report only unusual events
    opened: Callable[[Path], None] = ignore_directory  # called with the run directory at the start
    may_begin: Callable[[Trial], bool] = always  # the campaign stops if it returns False


@dataclass(frozen=True, slots=True)
class Executed:
    """The directory of a campaign's records, and the status of its trials."""

    directory: Path
    ended: Mapping[str, str]  # the status of each trial, by its id

    @property
    def statuses(self) -> list[str]:
        """The status of each trial."""
        return list(self.ended.values())

    def records(self) -> Iterator[Record]:
        """Yield the records in the order of their start."""
        records = open_run(self.directory).records()
        return (record for record in records if record.trial_id in self.ended)


def execute(campaign: CampaignDefinition, installed: Installed, request: Request) -> Executed:
    """Measure the trials that are not finished yet.

    Leftovers of a killed bench are removed first, since they may block an interface of this
    campaign. Raise `UsageError` for an impossible campaign, `UnavailableError` if this machine
    lacks a part, and `StoppedRun` if two contenders fail for the same reason. A failed trial has a
    record."""
    with suppress(PermissionError):  # missing privileges are reported later, with the switches
        _clean_up(request)
    with _other_host(campaign, request) as site:
        return _execute(campaign, installed, request, site)


@contextmanager
def _other_host(campaign: CampaignDefinition, request: Request) -> Iterator[Site | None]:
    """Connect to the remote host of the testbed if the campaign needs it. All changes there are
    undone at the end."""
    testbed = find_testbed(request.testbed)
    if not any("remote" in sweep.location for sweep in campaign.sweeps):
        yield None
        return
    site = Site(required(testbed))
    try:
        yield site
    finally:
        if message := site.close():
            request.say(f"{site.testbed.far}: {message}")


def _execute(
    campaign: CampaignDefinition, installed: Installed, request: Request, site: Site | None
) -> Executed:
    prepared = prepare(campaign, installed, baselines=request.baseline, site=site)
    campaign, steps = prepared.campaign, prepared.steps
    if prepared.instead is not None:
        request.say(f"{campaign.name}: {prepared.instead}")
    for reason in prepared.left_out:
        request.say(f"{campaign.name}: left out: {reason}")
    prepared.check()
    if prepared.pages is not None and prepared.pages.is_small:
        reason = prepared.pages.reason
        request.say(f"{campaign.name}: DPDK uses pages of 4 KiB, not hugepages: {reason}")
    with _open_run(campaign, steps, request) as run:
        request.opened(run.directory)
        try:
            steps = _run_steps(run, campaign, steps, request)
        except UnavailableError:  # another bench is measuring
            run.discard_empty()
            raise
        except SwitchmarkError:
            raise
        except Exception as error:  # a fault of the bench; the traceback ends with this note
            error.add_note(
                f"{campaign.name}: this is a fault of switchmark; please report it. Finished "
                f"trials are stored in {run.directory}. Show them: switchmark show "
                f"{run.directory}. Continue: the same command with --resume"
            )
            raise
        if not any(run.paths()):  # no trial was permitted to begin
            run.discard_empty()
            return Executed(run.directory, {})
        if campaign.until_ci is not None and not request.quiet:
            _say_endings(run, campaign, steps, request)
        planned = {step.plan.trial.id for step in steps}
        ended = {
            trial_id: status
            for trial_id, status in run.statuses().items()
            if campaign.proves or trial_id in planned
        }
    return Executed(run.directory, ended)


def _open_run(campaign: CampaignDefinition, steps: Sequence[Step], request: Request) -> Run:
    common: dict[str, Any] = {
        "campaign_text": request.campaign_text,
        "settings": {"set": list(request.overrides)},
        "host": asdict(gather()),
    }
    if not request.resume:
        return Run.create(
            request.results,
            campaign=campaign.name,
            definition=campaign.model_dump(mode="json"),
            **common,
        )
    latest = find_latest(request.results, campaign.name)
    if latest is None:
        raise UsageError(
            f"{request.results}: no run of campaign {campaign.name} to resume",
            remedy="leave out --resume",
        )
    _refuse_another_choice(campaign, latest)
    check_pages(open_run(latest), steps)
    return Run.resume(latest, **common)


def _refuse_another_choice(campaign: CampaignDefinition, directory: Path) -> None:
    """Raise UsageError if `first_available` now chooses other switches or environments than at the
    start of the run, since trials of two places do not belong into one run."""
    keys = [key for key, count in campaign.first_available if count is not None]
    before = open_run(directory).info.definition.get("sweeps", [])
    for key in keys:
        begun = {name for sweep in before for name in sweep.get(key, ())}
        now = {name for sweep in campaign.sweeps for name in getattr(sweep, key)}
        if begun and begun != now:
            raise UsageError(
                f"{directory}: the run began with {key} {', '.join(sorted(begun))}, and here "
                f"{', '.join(sorted(now))} would be measured",
                remedy="leave out --resume, or resume it in the place where it began",
            )


def _run_steps(
    run: Run, campaign: CampaignDefinition, steps: Sequence[Step], request: Request
) -> list[Step]:
    """Run the steps, and the repetitions that `until_ci` adds. Return all of them."""
    _clean_up(request)  # another bench may have been killed meanwhile
    finished = run.finished_ids()
    todo = [step for step in steps if step.plan.trial.id not in finished]
    if not request.quiet:
        done = f" ({len(steps) - len(todo)} finished before)" if len(todo) < len(steps) else ""
        time_s = sum(measuring_time_s(step.plan) for step in todo)
        trials_ = "1 trial" if len(todo) == 1 else f"{len(todo)} trials"
        summary = f"{trials_}{done}, {format_duration(time_s)} of measuring"
        if campaign.proves:
            trials = sum(not step.is_baseline for step in steps)
            prove = campaign.prove or PROVE
            budget = format_duration(campaign.budget_s or 0.0)
            summary = (
                f"measures blocks of {trials} trials until all comparisons "
                f"(prove: {prove * 100:.3g} %) are decided, {budget} at most"
            )
        request.say(f"{campaign.name}: {summary}; results in {run.directory}")
    with open_session() as session, without_collections():
        facts = _provenance(_tune(session, campaign, request))
        all_steps: list[Step] = []
        # Calibrations depend on the settings, so they are read after the tuning.
        calibrations, certificates = _calibrations(steps, request), Certificates.of_this_machine()
        failures = FailedStarts(lambda line: request.say(f"{campaign.name}: {line}"))
        proving = None
        if campaign.proves:
            proving = CampaignBlocks(run, campaign, steps, failures.is_left_out)
        for block in proving or chain([list(steps)], more_blocks(run, campaign, steps)):
            open_end = OpenEnd(len(all_steps), proving.left_s) if proving else None
            all_steps += block
            if not run_campaign(
                session, run, campaign.name, block, facts, request.observer, calibrations,
                campaign.repeat_disturbed, open_end, certificates, request.may_begin, failures,
            ):  # fmt: skip
                break
    if proving is not None and proving.is_out_of_time and len(run.finished_ids()) == len(finished):
        budget = format_duration(campaign.budget_s or 0.0)
        request.say(
            f"{campaign.name}: no trial was measured, because the budget of {budget} is spent; "
            "continue with a larger budget: --resume --set budget=TIME"
        )
    if failures.stopped:
        raise StoppedRun(f"{campaign.name}: {failures.stopped}; records in {run.directory}")
    return all_steps


def _calibrations(steps: Sequence[Step], request: Request) -> Calibrations:
    """Return the calibrations of this machine. For `recalibrate`, those of these steps are
    deleted."""
    calibrations = Calibrations.of_this_machine()
    if request.recalibrate:
        for step in steps:
            calibrations.forget(step.plan)
    return calibrations


def _clean_up(request: Request) -> None:
    for cleaned in clean_stale():
        request.say(f"cleaned up after a bench that was killed: session {cleaned.session}")


def _say_endings(
    run: Run, campaign: CampaignDefinition, steps: Sequence[Step], request: Request
) -> None:
    """Report each trial whose interval stayed too wide, or that has strange repetitions."""
    assert campaign.until_ci is not None
    for ending in endings(run, campaign, steps):
        name = to_notation(ending.trial)
        if not ending.narrow:
            width = "no interval" if ending.half_width is None else f"+-{ending.half_width:.1%}"
            request.say(
                f"{name}: {width} after {ending.count} repetitions, "
                f"{campaign.until_ci:.1%} requested"
            )
        for strange in ending.strange:
            request.say(f"{name}: {strange}")


def _tune(session: Session, campaign: CampaignDefinition, request: Request) -> dict[str, Any]:
    """Apply the tuning profile of the campaign during the session. Return the changed settings."""
    tuned = tuning.apply(session, campaign.tuning)
    for knob, reason in tuned.not_possible.items():
        request.say(f"tuning {campaign.tuning}: {knob} stays unchanged: {reason}")
    return asdict(tuned)


def _provenance(tuned: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return a function that reads the facts of the machine. Versions of tools are read once."""
    fixed = {
        "switchmark": full_version(), "tools": tool_versions(), "bench_pid": os.getpid(),
        "tuning": tuned,
    }  # fmt: skip
    return lambda: asdict(gather()) | {"limits": asdict(place.limits())} | fixed
