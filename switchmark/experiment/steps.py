"""The steps of a campaign: its trials with their baselines, and the check that they can run here.

Each trial is compared with its baseline: the same trial without a switch. Its applications use the
same cores, and the core of a polling switch stays idle, so that the baseline does not have more
resources than the trial. A baseline is measured once, first, for all repetitions and switches with
the same port kind and placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import Installed
from switchmark.campaign.notation import to_notation
from switchmark.environment.support.base import availability_with
from switchmark.errors import UnavailableError
from switchmark.experiment.wire import baseline_of
from switchmark.host import place
from switchmark.host.facts import read_cpus
from switchmark.host.interface_check import check_facing
from switchmark.host.kernel.congestion_control import congestion_control_availability
from switchmark.host.kernel.pci import pci_problem
from switchmark.host.local import LocalHost
from switchmark.host.place import Facility
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support import nginx
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.capabilities import Availability, available
from switchmark.model.choices import OWN_ENGINE
from switchmark.model.expectation import ExpectedFigure
from switchmark.model.io import Io
from switchmark.model.nics import is_pci
from switchmark.model.ports import ConnectMode
from switchmark.model.topology import mtu_bytes
from switchmark.model.trial import Trial
from switchmark.remote.site import Site
from switchmark.switch.support.base import availability_for
from switchmark.switch.support.contained import problem as contained_problem
from switchmark.trial.neighbour import availability as neighbour_availability
from switchmark.trial.plan import Cores, TrialPlan, plan_trial

# Facilities of the operating system that an I/O needs in addition to its port.
FACILITIES = {Io.AF_XDP: (Facility.XDP_SOCKET,), Io.IO_URING: (Facility.IO_URING,)}


@dataclass(frozen=True, slots=True)
class Step:
    """A trial to run, and its baseline (None for a baseline itself)."""

    plan: TrialPlan
    baseline: Trial | None
    is_baseline: bool = False  # measured first, once, to judge the other steps
    is_requested: bool = True  # a trial of the campaign, which a baseline can also be

    @property
    def serves_others(self) -> bool:
        """True if the trial is measured only to judge others."""
        return self.is_baseline and not self.is_requested

    def repeated(self, repetition: int) -> Step:
        """Return the step of another repetition of its trial."""
        return replace(self, plan=replace(self.plan, trial=self.plan.trial.repeated(repetition)))


def plan_steps(
    campaign: CampaignDefinition,
    installed: Installed,
    *,
    baselines: bool = True,
    site: Site | None = None,
    cores: Cores | None = None,
) -> list[Step]:
    """Return all steps of a campaign in their order, baselines first. `site` is the remote host,
    which trials with `location: remote` need; `cores` are those of another machine.

    Raise `UsageError` for an impossible trial, `UnavailableError` if this machine lacks a part."""
    trials = expand(campaign, installed.switches, installed.environments)
    cores = cores or Cores(read_cpus(), tuned=campaign.tuning)
    steps: list[Step] = []
    wires: dict[Trial, Step] = {}  # equal trials have equal ids
    for trial in trials:
        try:
            plan = plan_trial(campaign, trial, installed, cores, site)
        except UnavailableError as error:
            raise UnavailableError(f"{campaign.name}: {to_notation(trial)}: {error}") from None
        wire = baseline_of(plan, installed.switches[trial.switch]) if baselines else None
        if wire is not None:
            if wire not in wires:
                planned = plan_trial(campaign, wire, installed, cores, site)
                wires[wire] = Step(planned, None, is_baseline=True)
            wire = wires[wire].plan.trial
        steps.append(Step(plan, wire))
    expected = (expectation.figure for expectation in campaign.expect)
    if ExpectedFigure.SLOWER_THAN_BASELINE in expected:
        steps = _with_repeated_baselines(campaign, installed, cores, site, steps)
    requested = {step.plan.trial.id for step in steps if not step.is_baseline}
    return [
        replace(step, is_requested=step.plan.trial.id in requested) if step.is_baseline else step
        for step in (*wires.values(), *steps)
    ]


def _with_repeated_baselines(
    campaign: CampaignDefinition,
    installed: Installed,
    cores: Cores,
    site: Site | None,
    steps: Sequence[Step],
) -> list[Step]:
    """Add the baselines to each later block, so that a figure and its baseline have the same number
    of repetitions."""
    repeated: list[Step] = []
    known: set[Trial] = set()
    for step in steps:
        repetition = step.plan.trial.repetition
        if step.baseline is not None and repetition:
            wire = step.baseline.repeated(repetition)
            if wire not in known:
                known.add(wire)
                planned = plan_trial(campaign, wire, installed, cores, site)
                repeated.append(Step(planned, None, is_baseline=True))
        repeated.append(step)
    return repeated


def check_available(steps: Sequence[Step]) -> None:
    """Check that this machine can run every switch and environment of these steps.

    Raise `UnavailableError` with one line for each problem, before anything starts."""
    neighbours = dict.fromkeys(step.plan.trial.neighbour for step in steps)
    neighbours.pop("none", None)
    places = dict.fromkeys(step.plan.trial.switch_environment for step in steps)
    switches, instruments = _switch_availabilities(steps), _instrument_availabilities(steps)
    availabilities = [
        *((f"neighbour {name}", neighbour_availability(name)) for name in neighbours),
        *((f"switch {question.name}", answer) for question, answer in switches.items()),
        *((f"environment {name}", answer) for name, answer in _environment_availabilities(steps)),
        *((f"generator {name}", answer) for name, answer in instruments.items()),
        *((f"io {io}", answer) for io, answer in _io_availabilities(steps).items()),
        *(
            (f"congestion_control {name}", congestion_control_availability(name))
            for name in dict.fromkeys(step.plan.trial.congestion_control for step in steps)
            if name
        ),
    ]
    if any(step.plan.trial.cpu_limit is not None for step in steps):
        availabilities.append(("cpu_limit", place.can(Facility.CONTROL_GROUPS)))
    reasons: dict[str, list[str]] = {}  # the parts that cannot run, by reason
    for part, answer in availabilities:
        if not answer.available:
            reasons.setdefault(str(answer.refusal), []).append(part)
    lacking = [
        f"{', '.join(dict.fromkeys(keys))} cannot run here: {reason}"
        for reason, keys in reasons.items()
    ]
    contained = (str(problem) for problem in map(contained_problem, places) if problem is not None)
    # A switch in several modes can have the same problem several times.
    problems = list(dict.fromkeys([*lacking, *contained, *_nic_problems(steps)]))
    remote = {_Question.of(step): far for step in steps if (far := step.plan.far) is not None}
    for question, side in remote.items():
        problems += side.check(question.mode)
    if problems:
        raise UnavailableError("\n".join(problems))


def _environment_availabilities(steps: Sequence[Step]) -> list[tuple[str, Availability]]:
    """Return the availability of each environment with each port kind that is used in it."""
    environments = {
        (place.name, step.plan.port_kind): place
        for step in steps
        for place in step.plan.environments()
    }
    return [(name, availability_with(each, kind)) for (name, kind), each in environments.items()]


def _nic_problems(steps: Sequence[Step]) -> list[str]:
    """Return why ports of the host cannot be used."""
    mtus: dict[str, int] = {}
    for trial in (step.plan.trial for step in steps):
        least_bytes = mtu_bytes(trial.frame_sizes.largest)
        for name in trial.nics.ports:
            mtus[name] = max(least_bytes, mtus.get(name, 0))
    problems = []
    for name, least_bytes in mtus.items():
        if is_pci(name):
            problem = pci_problem(name)
            problems += [f"nics: {name} {problem}"] if problem else []
            continue
        try:
            check_facing(LocalHost(), name, least_bytes)
        except UnavailableError as error:
            problems.append(f"nics: {error}")
    return problems


def leave_out_unavailable(steps: Sequence[Step]) -> tuple[list[Step], list[str]]:
    """Return the steps that this machine can run, and reasons why the others are left out.

    Raise `UnavailableError` if it cannot run any of them."""
    contenders = [step for step in steps if not step.is_baseline]
    availabilities = _switch_availabilities(contenders)
    reasons = list(
        dict.fromkeys(
            f"{question.name}: {availability.refusal}"
            for question, availability in availabilities.items()
            if not availability.available
        )
    )
    able = [step for step in contenders if availabilities[_Question.of(step)].available]
    if not able:
        raise UnavailableError("none of the switches can run here\n" + "\n".join(reasons))
    instruments = _instrument_availabilities(able)
    lacking = {name: one for name, one in instruments.items() if not one.available}
    reasons += [f"generator {name}: {one.refusal}" for name, one in lacking.items()]
    able = [step for step in able if _foreign_program(step) not in lacking]
    if not able:
        raise UnavailableError("none of the generators is here\n" + "\n".join(reasons))
    ios = {io: one for io, one in _io_availabilities(able).items() if not one.available}
    reasons += [f"io {io}: {one.refusal}" for io, one in ios.items()]
    able = [step for step in able if _own_io(step) not in ios]
    if not able:
        raise UnavailableError("none of the I/Os can be used here\n" + "\n".join(reasons))
    wires = {step.baseline.id for step in able if step.baseline is not None}
    return [s for s in steps if s.is_baseline and s.plan.trial.id in wires] + able, reasons


@dataclass(frozen=True, slots=True)
class _Question:
    """The properties of a step that its switch's availability depends on."""

    name: str
    mode: ConnectMode
    program: str  # empty: the program that is installed here
    location: str

    @classmethod
    def of(cls, step: Step) -> _Question:
        trial, name = step.plan.trial, step.plan.switch.name
        named = f"{name} (contender {trial.contender})" if trial.contender else name
        return cls(named, step.plan.mode, trial.program, trial.location)


def _switch_availabilities(steps: Sequence[Step]) -> dict[_Question, Availability]:
    """Return the availability of each switch with each of its connect modes and programs."""
    plans = {_Question.of(step): step.plan for step in steps}
    return {key: availability_for(plan.switch, plan.mode) for key, plan in plans.items()}


def _instrument_availabilities(steps: Sequence[Step]) -> dict[str, Availability]:
    """Return the availability of each foreign generator and web server."""
    names = dict.fromkeys(filter(None, map(_foreign_program, steps)))
    return {
        name: nginx.availability() if name == nginx.NAME else INSTRUMENTS[name]().availability()
        for name in names
    }


def _foreign_program(step: Step) -> str:
    """Return the foreign generator or web server that a trial needs on this host; empty if it needs
    none."""
    trial = step.plan.trial
    if trial.generator != OWN_ENGINE:
        return trial.generator
    return nginx.NAME if trial.workload == "http" and trial.location != "remote" else ""


def _io_availabilities(steps: Sequence[Step]) -> dict[Io, Availability]:
    """Return the availability of each I/O of applications on this machine's kernel."""
    ios = dict.fromkeys(io for step in steps if (io := _own_io(step)) is not None)
    return {io: place.missing(*FACILITIES.get(io, ())) or available("") for io in ios}


def _own_io(step: Step) -> Io | None:
    """Return the I/O of applications on this machine's kernel; None if all are in guests."""
    is_here = any(not environment.traits.guests for environment in step.plan.environments())
    return step.plan.io if is_here else None
