"""What `run` and `trial` share: from a campaign to stored records, with progress on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from switchmark.campaign.expand import leave_out_unable
from switchmark.campaign.installed import Installed
from switchmark.campaign.notation import to_notation
from switchmark.cli import ci
from switchmark.cli.output import note, print_json
from switchmark.cli.progress import CampaignProgress
from switchmark.engine.binary import find_engine
from switchmark.errors import UnavailableError, UsageError
from switchmark.experiment.blocks import CampaignBlocks
from switchmark.experiment.calibration import Calibrations
from switchmark.experiment.campaign import OpenEnd, measuring_time_s, run_campaign
from switchmark.experiment.repeat import endings, more_blocks
from switchmark.experiment.steps import Step, check_available, leave_out_unavailable, plan_steps
from switchmark.language.duration import format_duration
from switchmark.model.campaign import Campaign
from switchmark.remote.site import Site
from switchmark.report.junit import cases_of_run
from switchmark.results.expectations import Outcome
from switchmark.results.proving import Proving
from switchmark.results.store import DEFAULT_ROOT, Run, find_latest, open_run
from switchmark.results.summary import summary
from switchmark.testbed import tuning
from switchmark.testbed.facts import gather, tool_versions
from switchmark.testbed.host import Session
from switchmark.testbed.session import open_session
from switchmark.testbed.testbed_file import find_testbed, required
from switchmark.testbed.undo.clean import clean_stale


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the user asked for beside the campaign itself."""

    campaign_text: str  # kept with the results
    overrides: list[str]
    results: Path = DEFAULT_ROOT
    resume: bool = False
    baseline: bool = True
    recalibrate: bool = False
    report: bool = False
    testbed: Path | None = None
    json: bool = False
    quiet: bool = False
    junit: Path | None = None
    bmf: Path | None = None


def measure(campaign: Campaign, there: Installed, wish: Wish) -> int:
    """Measure what is not finished yet; returns the exit code: 4 when an expectation is violated,
    else 1 when a trial failed."""
    ci.check_places(wish.junit, wish.bmf)
    with _other_host(campaign, wish) as site:
        return _measure(campaign, there, wish, site)


@contextmanager
def _other_host(campaign: Campaign, wish: Wish) -> Iterator[Site | None]:
    """The other host of the testbed, where the campaign has trials between hosts; what is made
    there is undone at the end."""
    testbed = find_testbed(wish.testbed)
    if not any("remote" in sweep.location for sweep in campaign.sweeps):
        yield None
        return
    site = Site(required(testbed))
    try:
        yield site
    finally:
        if words := site.close():
            note(f"{site.testbed.far}: {words}")


def _measure(campaign: Campaign, there: Installed, wish: Wish, site: Site | None) -> int:
    campaign, left_out = leave_out_unable(campaign, there.switches, there.environments)
    steps = plan_steps(campaign, there, baselines=wish.baseline, site=site)
    if campaign.skip_unavailable:
        steps, missing = leave_out_unavailable(steps)
        for reason in [*left_out, *missing]:
            note(f"{campaign.name}: left out: {reason}")
    check_available(steps)
    find_engine()  # raises where there is none, before a trial fails for it
    with _open_run(campaign, wish) as run:
        kept = Calibrations.of_this_machine()
        if wish.recalibrate:
            for step in steps:
                kept.forget(step.plan)
        try:
            steps = _run_steps(run, campaign, steps, kept, quiet=wish.quiet)
        except UnavailableError:  # another bench is measuring
            run.discard_empty()
            raise
        if campaign.until_ci is not None and not wish.quiet:
            _say_endings(run, campaign, steps)
        wanted = {step.plan.trial.id for step in steps}
        records = [one for one in run.records() if campaign.proves or one.trial_id in wanted]
    if wish.report:
        _report(run.directory)
    if wish.json:
        print_json(records)
    else:
        _show(run.directory)
    violated = _judge(run.directory, wish)
    failed = sum(record.status == "failed" for record in records)
    note(f"{len(records) - failed} trials finished, {failed} failed; results in {run.directory}")
    if violated:
        return ci.EXIT_VIOLATED
    return 1 if failed else 0


def _open_run(campaign: Campaign, wish: Wish) -> Run:
    common: dict[str, Any] = {
        "campaign_text": wish.campaign_text,
        "settings": {"set": wish.overrides},
        "host": asdict(gather()),
    }
    if not wish.resume:
        return Run.create(
            wish.results,
            campaign=campaign.name,
            definition=campaign.model_dump(mode="json"),
            **common,
        )
    latest = find_latest(wish.results, campaign.name)
    if latest is None:
        raise UsageError(
            f"{wish.results}: no run of campaign {campaign.name} to resume; leave out --resume"
        )
    return Run.resume(latest, **common)


def _run_steps(
    run: Run, campaign: Campaign, steps: Sequence[Step], kept: Calibrations, *, quiet: bool
) -> list[Step]:
    """Run the steps and what `until_ci` adds; returns all of them."""
    for cleaned in clean_stale():
        note(f"cleaned up after a bench that was killed: session {cleaned.session}")
    finished = run.finished_ids()
    todo = [step for step in steps if step.plan.trial.id not in finished]
    if not quiet:
        done = f" ({len(steps) - len(todo)} finished before)" if len(todo) < len(steps) else ""
        time_s = sum(measuring_time_s(step.plan) for step in todo)
        what = f"{len(todo)} trials{done}, {format_duration(time_s)} of measuring"
        if campaign.proves:
            asked = Proving.of(campaign.model_dump())
            trials = sum(not step.is_baseline for step in steps)
            what = (
                f"blocks of {trials} trials until leads from {asked.prove:.2%} on are decided, "
                f"for {format_duration(asked.budget_s or 0.0)} at most"
            )
        note(f"{campaign.name}: {what}; results in {run.directory}")
    with open_session() as session, CampaignProgress(quiet=quiet) as progress:
        facts = _provenance(_tune(session, campaign))
        made: list[Step] = []
        proving = CampaignBlocks(run, campaign, steps) if campaign.proves else None
        for block in proving or chain([list(steps)], more_blocks(run, campaign, steps)):
            open_end = OpenEnd(len(made), proving.left_s) if proving else None
            run_campaign(
                session, run, campaign.name, block, facts, progress, kept,
                campaign.repeat_disturbed, open_end,
            )  # fmt: skip
            made += block
    return made


def _say_endings(run: Run, campaign: Campaign, steps: Sequence[Step]) -> None:
    """One line for every trial whose interval stayed wide, or that has strange repetitions."""
    assert campaign.until_ci is not None
    for one in endings(run, campaign, steps):
        name = to_notation(one.trial)
        if not one.narrow:
            width = "no interval" if one.half_width is None else f"+-{one.half_width:.1%}"
            note(f"{name}: {width} after {one.count} repetitions, {campaign.until_ci:.1%} asked")
        for strange in one.strange:
            note(f"{name}: {strange}")


def _tune(session: Session, campaign: Campaign) -> dict[str, Any]:
    """Set the machine as the campaign asks, for the time of the session; what became of it."""
    tuned = tuning.apply(session, campaign.tuning)
    for knob, reason in tuned.not_possible.items():
        note(f"tuning {campaign.tuning}: {knob} is left as it is: {reason}")
    return asdict(tuned)


def _provenance(tuned: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Facts of the machine, fresh for every trial; versions of tools do not change meanwhile."""
    fixed = {"tools": tool_versions(), "bench_pid": os.getpid(), "tuning": tuned}
    return lambda: asdict(gather()) | fixed


def _show(directory: Path) -> None:
    from switchmark.cli.run_summary import print_summary
    from switchmark.results.query import read_table
    from switchmark.results.summary import summarise

    rows = summarise(directory, read_table(directory))
    print_summary(open_run(directory), rows, rows)


def _judge(directory: Path, wish: Wish) -> bool:
    """Judge what the campaign expects and write what CI wants; whether anything is violated."""
    run = open_run(directory)
    if not (run.info.definition.get("expect") or wish.junit or wish.bmf):
        return False
    rows = summary(directory)
    judgements = ci.judged(run, rows)
    cases = cases_of_run(run.info.campaign, rows, judgements)
    ci.write_junit(wish.junit, run.info.campaign, cases, run.info.started_at)
    ci.write_bmf(wish.bmf, rows)
    ci.say(judgements)
    return any(one.outcome is Outcome.VIOLATED for one in judgements)


def _report(directory: Path) -> None:
    from switchmark.report.html import write_report

    target = directory / "report.html"
    for problem in write_report(directory, target):
        note(f"switchmark: {problem}")
    note(f"report: {target}")
