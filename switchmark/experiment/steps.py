"""From trials to steps: the bare-wire baselines are added, and what cannot run here is refused.

Each trial is judged against the same trial over a wire without any switch, its applications on the
same cores and, where a polling switch would run, a core left idle: otherwise the baseline would
have more room than the trial. One baseline serves all repetitions and all switches that share port
kind and placement; it is measured first.
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

# Facilities of the operating system that an I/O needs beside its port.
FACILITIES = {Io.AF_XDP: (Facility.XDP_SOCKET,), Io.IO_URING: (Facility.IO_URING,)}


@dataclass(frozen=True, slots=True)
class Step:
    """A trial to run, and the baseline it is judged against (None for the bare wire)."""

    plan: TrialPlan
    baseline: Trial | None
    is_baseline: bool = False  # measured first, once, to judge the other steps
    is_asked: bool = True  # by the campaign: a baseline may also be one of its trials

    @property
    def serves_others(self) -> bool:
        """Return True if the trial is measured only to judge others."""
        return self.is_baseline and not self.is_asked

    def repeated(self, repetition: int) -> Step:
        """The step of another repetition of its trial."""
        return replace(self, plan=replace(self.plan, trial=self.plan.trial.repeated(repetition)))


def plan_steps(
    campaign: CampaignDefinition,
    there: Installed,
    *,
    baselines: bool = True,
    site: Site | None = None,
    cores: Cores | None = None,
) -> list[Step]:
    """All steps of a campaign in their order, baselines (if wanted) first. `site` is the other
    host, which trials with `location: remote` need; `cores` are those of another machine.

    Raises `UsageError` for an impossible trial, `UnavailableError` if this machine lacks a part."""
    trials = expand(campaign, there.switches, there.environments)
    cores = cores or Cores(read_cpus(), tuned=campaign.tuning)
    steps: list[Step] = []
    wires: dict[Trial, Step] = {}  # equal trials have equal ids
    for trial in trials:
        try:
            plan = plan_trial(campaign, trial, there, cores, site)
        except UnavailableError as error:
            raise UnavailableError(f"{campaign.name}: {to_notation(trial)}: {error}") from None
        wire = baseline_of(plan, there.switches[trial.switch]) if baselines else None
        if wire is not None:
            if wire not in wires:
                planned = plan_trial(campaign, wire, there, cores, site)
                wires[wire] = Step(planned, None, is_baseline=True)
            wire = wires[wire].plan.trial
        steps.append(Step(plan, wire))
    if any(one.figure is ExpectedFigure.SLOWER_THAN_BASELINE for one in campaign.expect):
        steps = _with_wires_again(campaign, there, cores, site, steps)
    asked = {step.plan.trial.id for step in steps if not step.is_baseline}
    return [
        replace(one, is_asked=one.plan.trial.id in asked) if one.is_baseline else one
        for one in (*wires.values(), *steps)
    ]


def _with_wires_again(
    campaign: CampaignDefinition,
    there: Installed,
    cores: Cores,
    site: Site | None,
    steps: Sequence[Step],
) -> list[Step]:
    """The steps with the bare wires in each later block, so that a figure is compared with as many
    wires' figures as it has repetitions."""
    found: list[Step] = []
    known: set[Trial] = set()
    for step in steps:
        repetition = step.plan.trial.repetition
        if step.baseline is not None and repetition:
            wire = step.baseline.repeated(repetition)
            if wire not in known:
                known.add(wire)
                planned = plan_trial(campaign, wire, there, cores, site)
                found.append(Step(planned, None, is_baseline=True))
        found.append(step)
    return found


def check_available(steps: Sequence[Step]) -> None:
    """Ask every switch and environment of these steps whether this machine can run it.

    Raises `UnavailableError`, one line each, before anything is started."""
    beside = dict.fromkeys(step.plan.trial.neighbour for step in steps)
    neighbours = [name for name in beside if name != "none"]
    places = dict.fromkeys(step.plan.trial.switch_environment for step in steps)
    switches, instruments = _switch_availabilities(steps), _instrument_availabilities(steps)
    availabilities = [
        *((f"neighbour {name}", neighbour_availability(name)) for name in neighbours),
        *((f"switch {what.name}", found) for what, found in switches.items()),
        *((f"environment {name}", found) for name, found in _environment_availabilities(steps)),
        *((f"generator {name}", found) for name, found in instruments.items()),
        *((f"io {io}", found) for io, found in _io_availabilities(steps).items()),
        *(
            (f"congestion_control {name}", congestion_control_availability(name))
            for name in dict.fromkeys(step.plan.trial.congestion_control for step in steps)
            if name
        ),
    ]
    if any(step.plan.trial.cpu_limit is not None for step in steps):
        availabilities.append(("cpu_limit", place.can(Facility.CONTROL_GROUPS)))
    reasons: dict[str, list[str]] = {}  # and everything that cannot run for each
    for what, found in availabilities:
        if not found.available:
            reasons.setdefault(str(found.refusal), []).append(what)
    lacking = [
        f"{', '.join(dict.fromkeys(keys))} cannot run here: {reason}"
        for reason, keys in reasons.items()
    ]
    contained = (str(one) for one in map(contained_problem, places) if one is not None)
    every = [*lacking, *contained, *_nic_problems(steps)]
    problems = list(dict.fromkeys(every))  # a switch in several modes
    far = {_Question.of(step): f for step in steps if (f := step.plan.far) is not None}
    for one, side in far.items():
        problems += side.check(one.mode)
    if problems:
        raise UnavailableError("\n".join(problems))


def _environment_availabilities(steps: Sequence[Step]) -> list[tuple[str, Availability]]:
    """The availability of each environment with each kind of port that is wanted in it, asked
    once."""
    wanted = {
        (place.name, step.plan.port_kind): place
        for step in steps
        for place in step.plan.environments()
    }
    return [(name, availability_with(each, kind)) for (name, kind), each in wanted.items()]


def _nic_problems(steps: Sequence[Step]) -> list[str]:
    """Return why ports of the host cannot be lent."""
    wanted: dict[str, int] = {}
    for trial in (step.plan.trial for step in steps):
        least_bytes = mtu_bytes(trial.frame_sizes.largest)
        for name in trial.nics.ports:
            wanted[name] = max(least_bytes, wanted.get(name, 0))
    problems = []
    for name, least_bytes in wanted.items():
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
    """The steps of the switches that this machine can run, and why the others are left out.

    Raises `UnavailableError` when it can run none of them."""
    contenders = [step for step in steps if not step.is_baseline]
    availabilities = _switch_availabilities(contenders)
    reasons = list(
        dict.fromkeys(
            f"{what.name}: {availability.refusal}"
            for what, availability in availabilities.items()
            if not availability.available
        )
    )
    kept = [step for step in contenders if availabilities[_Question.of(step)].available]
    if not kept:
        raise UnavailableError("none of the switches can run here\n" + "\n".join(reasons))
    instruments = _instrument_availabilities(kept)
    lacking = {name: one for name, one in instruments.items() if not one.available}
    reasons += [f"generator {name}: {one.refusal}" for name, one in lacking.items()]
    kept = [step for step in kept if _foreign_program(step) not in lacking]
    if not kept:
        raise UnavailableError("none of the generators is here\n" + "\n".join(reasons))
    ios = {io: one for io, one in _io_availabilities(kept).items() if not one.available}
    reasons += [f"io {io}: {one.refusal}" for io, one in ios.items()]
    kept = [step for step in kept if _own_io(step) not in ios]
    if not kept:
        raise UnavailableError("none of the I/Os can be used here\n" + "\n".join(reasons))
    wires = {step.baseline.id for step in kept if step.baseline is not None}
    return [s for s in steps if s.is_baseline and s.plan.trial.id in wires] + kept, reasons


@dataclass(frozen=True, slots=True)
class _Question:
    """One question whether something can run here."""

    name: str
    mode: ConnectMode
    program: str  # empty: as it is found here
    location: str

    @classmethod
    def of(cls, step: Step) -> _Question:
        trial, name = step.plan.trial, step.plan.switch.name
        named = f"{name} (contender {trial.contender})" if trial.contender else name
        return cls(named, step.plan.mode, trial.program, trial.location)


def _switch_availabilities(steps: Sequence[Step]) -> dict[_Question, Availability]:
    """The availability of each switch, asked once for each of its connect modes and programs."""
    plans = {_Question.of(step): step.plan for step in steps}
    return {which: availability_for(plan.switch, plan.mode) for which, plan in plans.items()}


def _instrument_availabilities(steps: Sequence[Step]) -> dict[str, Availability]:
    """The availability of each foreign program that makes or answers traffic, requested once."""
    names = dict.fromkeys(filter(None, map(_foreign_program, steps)))
    return {
        name: nginx.availability() if name == nginx.NAME else INSTRUMENTS[name]().availability()
        for name in names
    }


def _foreign_program(step: Step) -> str:
    """Return the foreign program that a trial needs: its generator, or the web server of our own
    engine; empty if it needs none."""
    trial = step.plan.trial
    if trial.generator != OWN_ENGINE:
        return trial.generator
    return nginx.NAME if trial.workload == "http" else ""


def _io_availabilities(steps: Sequence[Step]) -> dict[Io, Availability]:
    """The availability of each I/O by which applications on this machine's kernel reach ports."""
    ios = dict.fromkeys(io for step in steps if (io := _own_io(step)) is not None)
    return {io: place.missing(*FACILITIES.get(io, ())) or available("") for io in ios}


def _own_io(step: Step) -> Io | None:
    """The I/O of applications on this machine's kernel; None if all of them are in guests."""
    is_here = any(not one.traits.guests for one in step.plan.environments())
    return step.plan.io if is_here else None
