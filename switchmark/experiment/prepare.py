"""Prepares a campaign on a machine: its trials, and all reasons to refuse the start.

Commands `plan` and `run` both use this file, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from switchmark.campaign.expand import leave_out_unable
from switchmark.campaign.first_available import Choice, choose, refusal, refusals_of, sentence
from switchmark.campaign.installed import Installed
from switchmark.campaign.notation import to_notation
from switchmark.engine.binary import find_engine
from switchmark.environment.registry import ENVIRONMENTS, traits_of
from switchmark.errors import Refusal, UnavailableError
from switchmark.experiment.pages import choose_pages, with_such_pages
from switchmark.experiment.steps import (
    Step,
    check_available,
    leave_out_unavailable,
    plan_steps,
)
from switchmark.host import facts, hugepages, place, tuning
from switchmark.model.campaign import CampaignDefinition, Sweep
from switchmark.model.capabilities import Availability, Capabilities, available, unavailable
from switchmark.model.ports import ConnectMode
from switchmark.remote.site import Site
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.base import availability_for
from switchmark.switch.support.options import configured
from switchmark.testbed.target import Target
from switchmark.trial.command_lines import refused_command_lines
from switchmark.trial.memory_needs import too_little_memory
from switchmark.trial.page_size import PageChoice
from switchmark.trial.place_needs import misfits, no_room_to_poll
from switchmark.trial.plan import Cores

NONE_HERE = "none of the switches can run here"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A campaign on a machine: the steps in their order, baselines first."""

    campaign: CampaignDefinition  # without the switches that are left out
    steps: list[Step]
    left_out: list[str]  # reasons why contenders are left out, for `skip_unavailable`
    instead: str | None  # for `first_available`: values left out, the reasons, and substitutes
    refused: list[str]  # reasons why the start is refused
    pages: PageChoice | None = None  # the page size of trials that do not set it

    def check(self) -> None:
        """Raise UnavailableError if the start is refused."""
        if self.refused:
            raise UnavailableError("\n".join(self.refused))


def prepare(
    campaign: CampaignDefinition,
    installed: Installed,
    *,
    baselines: bool = True,
    site: Site | None = None,
    target: Target | None = None,
) -> Prepared:
    """Plan the steps of a campaign on this machine, or on the described machine `target`. Programs
    of the remote host are only checked if `site` is given.

    Raise `UsageError` for an impossible campaign, and `UnavailableError` for too few cores."""
    campaign, choices = _choose_first(campaign, installed, target)
    campaign, left_out = leave_out_unable(campaign, installed.switches, installed.environments)
    refused: list[str] = []
    if target is None:
        refused = [problem for choice in choices for problem in refusals_of(choice)]
    if campaign.skip_unavailable and not refused:
        campaign, absent, refused = _leave_out_absent(campaign, installed, target)
        left_out += absent
    if target is not None:
        cores = Cores(target.cpus, [cpu.id for cpu in target.cpus], campaign.tuning)
    else:
        cores = Cores(facts.read_cpus(), tuned=campaign.tuning)
    steps = plan_steps(campaign, installed, baselines=baselines, site=site, cores=cores)
    pages: PageChoice | None = None
    if target is not None:
        refused += _lacked_by(target, steps)
    elif not refused:
        try:
            if campaign.skip_unavailable:
                steps, missing = leave_out_unavailable(steps)
                left_out += missing
            check_available(steps)
        except UnavailableError as error:
            refused += str(error).splitlines()
        refused += _tuning_problems(campaign.tuning)
        if not refused:
            steps, pages = choose_pages(steps)
            steps, missing, refused = with_such_pages(campaign, steps, pages)
            left_out += missing
        refused += _refused_by_engine(campaign, steps)
        if not refused:
            steps, missing, refused = _fitting(campaign, steps)
            left_out += missing
        if not refused:  # the memory needs of a switch are unknown if it is not installed
            short = too_little_memory([step.plan for step in steps], hugepages.pools())
            refused += [f"{campaign.name}: {problem}" for problem in short]
    left_out, refused = list(dict.fromkeys(left_out)), list(dict.fromkeys(refused))
    return Prepared(
        campaign,
        steps,
        left_out,
        sentence(choices, lambda name: traits_of(name).noun),
        refused,
        pages,
    )


def _tuning_problems(profile: str) -> list[str]:
    """Return the reason why the settings of a profile cannot be made here; empty if they can."""
    problem = place.missing(place.Facility.KERNEL_SETTINGS) if tuning.parse(profile) else None
    return [f"tuning {profile} cannot be set here: {problem.refusal}"] if problem else []


def _choose_first(
    campaign: CampaignDefinition, installed: Installed, target: Target | None
) -> tuple[CampaignDefinition, list[Choice]]:
    """Apply `first_available`: choose the first environments and switches that are available."""
    absence = _absence_here(installed.switches) if target is None else _absence_on(target)
    limits = place.limits()

    def environment_problem(name: str) -> Availability:
        if target is not None:
            return _available_unless(target.lacks([], [name], []))
        return ENVIRONMENTS[name]().availability()

    def switch_problem(sweep: Sweep, name: str) -> Availability:
        answer = refusal(sweep, name, installed.switches, installed.environments)
        if not answer.available:
            return answer
        no_room = no_room_to_poll(installed.switches[name], limits) if target is None else None
        return no_room or absence(sweep, name)

    return choose(campaign, environment_problem, switch_problem)


def _available_unless(problems: Sequence[str]) -> Availability:
    return unavailable(problems[0]) if problems else available(None)


def _refused_by_engine(campaign: CampaignDefinition, steps: list[Step]) -> list[str]:
    """Return why trials cannot start an engine."""
    plans = [step.plan for step in sorted(steps, key=lambda step: step.is_baseline)]
    try:
        refused = refused_command_lines(find_engine(), plans)
    except UnavailableError as error:
        return [str(error)]
    return [f"{campaign.name}: {problem}" for problem in refused]


def _fitting(
    campaign: CampaignDefinition, steps: list[Step]
) -> tuple[list[Step], list[str], list[str]]:
    """Return the steps that fit into the limits of this place, reasons why others are left out, and
    reasons why the start is refused, each with the first trial that has this problem."""
    limits = place.limits()
    problems: dict[Refusal, str] = {}
    fitting = []
    for step in steps:
        misfit = misfits(step.plan, limits, small_pages=step.plan.small_pages)
        for problem in misfit:
            problems.setdefault(problem, f"{to_notation(step.plan.trial)}: {problem}")
        fitting += [] if misfit else [step]
    if not problems:
        return steps, [], []
    contenders = [step for step in fitting if not step.is_baseline]
    if campaign.skip_unavailable and contenders:
        wires = {step.baseline.id for step in contenders if step.baseline is not None}
        needed = [s for s in fitting if not s.is_baseline or s.plan.trial.id in wires]
        return needed, list(problems.values()), []
    return steps, [], [f"{campaign.name}: {problem}" for problem in problems.values()]


def _lacked_by(target: Target, steps: list[Step]) -> list[str]:
    plans = [step.plan for step in steps if not step.is_baseline]
    return target.lacks(
        [plan.trial.switch for plan in plans],
        [plan.environment.name for plan in plans],
        [name for plan in plans for name in plan.trial.nics.ports],
    )


def _leave_out_absent(
    campaign: CampaignDefinition, installed: Installed, target: Target | None
) -> tuple[CampaignDefinition, list[str], list[str]]:
    """Leave out the switches that the machine lacks, before the choice of a connect mode that all
    switches share. Return the campaign, the reasons, and why nothing can start."""
    answer_of = _absence_here(installed.switches) if target is None else _absence_on(target)
    sweeps, reasons = [], []
    for sweep in campaign.sweeps:
        answers = {switch: answer_of(sweep, switch) for switch in sweep.switch}
        present = tuple(switch for switch, answer in answers.items() if answer.available)
        reasons += [
            str(answer.refusal) if target else f"{_called(sweep, switch)}: {answer.refusal}"
            for switch, answer in answers.items()
            if not answer.available
        ]
        sweeps += [sweep.model_copy(update={"switch": present})] if present else []
    reasons = list(dict.fromkeys(reasons))
    if not sweeps:
        return campaign, [], [NONE_HERE, *reasons]
    return campaign.model_copy(update={"sweeps": tuple(sweeps)}), reasons, []


def _called(sweep: Sweep, switch: str) -> str:
    contender = next(filter(None, sweep.contender), "")
    is_named = contender and contender != switch
    return f"{switch} (contender {contender})" if is_named else switch


_Absence = Callable[[Sweep, str], Availability]


def _absence_on(target: Target) -> _Absence:
    def answer_of(_sweep: Sweep, switch: str) -> Availability:
        return _available_unless(target.lacks([switch], [], []))

    return answer_of


def _absence_here(capabilities: Mapping[str, Capabilities]) -> _Absence:
    """Return a function that checks if this machine runs a switch with one of the programs and
    connect modes of a sweep. Each combination is tried once."""
    known: dict[tuple[str, str, ConnectMode], Availability] = {}

    def try_once(switch: str, program: str, mode: ConnectMode) -> Availability:
        key = switch, program, mode
        if key not in known:
            known[key] = availability_for(configured(SWITCHES[switch](), "", program), mode)
        return known[key]

    def answer_of(sweep: Sweep, switch: str) -> Availability:
        modes = [mode for mode in sweep.connect_mode if mode is not None]
        if None in sweep.connect_mode:
            modes += capabilities[switch].connect_modes
        answers = [
            try_once(switch, program, mode)
            for program in sweep.program
            for mode in dict.fromkeys(modes)
        ]
        return next((answer for answer in answers if answer.available), answers[0])

    return answer_of
