"""From trials to steps: every choice made, the bare-wire baselines added, nothing touched.

Each trial is judged against the same trial over a wire without any switch, its applications
on the same cores and, where a polling switch would run, a core left idle: otherwise the
baseline would have more room than the trial. One baseline serves all repetitions and all
switches that share port kind and placement; it is measured first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import Installed
from switchmark.campaign.model import WIRE, Campaign, Method, Trial
from switchmark.campaign.port_kinds import usable_ports
from switchmark.campaign.possible import WIRELESS, cable_problem
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import UnavailableError, UsageError
from switchmark.method.arguments import resolve_io
from switchmark.method.calibration import WIRE_ENVIRONMENT, over_cable
from switchmark.method.campaign import Step
from switchmark.method.neighbour import cores_of
from switchmark.method.neighbour import probe as probe_neighbour
from switchmark.method.trial import TrialPlan
from switchmark.remote.site import FarSide, Site, SiteSwitch
from switchmark.results.record import Placement
from switchmark.scenario.registry import expand as expand_scenario
from switchmark.scenario.registry import resolve as resolve_scenario
from switchmark.scenario.registry import without_vnfs
from switchmark.scenario.split import split_of
from switchmark.scenario.topology import (
    ETHERNET_OVERHEAD_BYTES,
    STANDARD_MTU_BYTES,
    Topology,
    wire_kind,
)
from switchmark.switch.across import AcrossHosts, CableEnds
from switchmark.switch.base import (
    MADE_BY_SWITCH,
    Capabilities,
    ConnectMode,
    PortKind,
    Probe,
    Switch,
    has_main_thread,
    probe_for,
    splits,
)
from switchmark.switch.contained import HOST
from switchmark.switch.contained import problem as contained_problem
from switchmark.switch.direct import Direct
from switchmark.switch.options import configured
from switchmark.switch.registry import SWITCHES
from switchmark.testbed.facing import check_facing
from switchmark.testbed.facts import Cpu, read_cpus
from switchmark.testbed.local import LocalHost
from switchmark.testbed.nics import is_pci, parse_nics
from switchmark.testbed.pci import pci_problem
from switchmark.testbed.placement import Demand, place

CEILING_RUN_S = 3.0  # kept of the saturating run over the wire that a search is bounded by


def plan_steps(
    campaign: Campaign, there: Installed, *, baselines: bool = True, site: Site | None = None
) -> list[Step]:
    """All steps of a campaign in their order, baselines (if wanted) first. `site` is the other
    host, which trials with `location: remote` need.

    Raises `UsageError` for what cannot be, `UnavailableError` for what this machine lacks."""
    trials = expand(campaign, there.switches, there.environments)
    cores = Cores(read_cpus())
    steps: list[Step] = []
    wires: dict[Trial, Step] = {}  # (equal trials have equal ids)
    for trial in trials:
        plan = plan_trial(campaign, trial, there, cores, site)
        wire = baseline_of(plan, there.switches[trial.switch]) if baselines else None
        if wire is not None:
            if wire not in wires:
                planned = plan_trial(campaign, wire, there, cores, site)
                wires[wire] = Step(planned, None, is_baseline=True)
            wire = wires[wire].plan.trial
        steps.append(Step(plan, wire))
    return [*wires.values(), *steps]


class Cores:
    """The machine's cores, on which trials that demand the same are placed the same: campaigns
    have many trials and few ways to place them."""

    def __init__(self, cpus: Sequence[Cpu]) -> None:
        self._cpus = tuple(cpus)
        self._usable = frozenset(os.sched_getaffinity(0))
        self._placed: dict[Demand, Placement] = {}

    def place(self, demand: Demand) -> Placement:
        """See `placement.place`. Raises UsageError."""
        if demand not in self._placed:
            self._placed[demand] = place(self._cpus, self._usable, demand)
        return self._placed[demand]


def plan_trial(
    campaign: Campaign, trial: Trial, there: Installed, cores: Cores, site: Site | None = None
) -> TrialPlan:
    """Every choice that a trial leaves open: port kind, connect mode, cores."""
    can = there.switches[trial.switch]
    remote = trial.location == "remote"
    held = there.environments[trial.environment]
    # A port that is a device, as that of the host's that takes its place is.
    as_device = trial.nics and PortKind.VETH in can.port_kinds and PortKind.VETH in held
    wanted = PortKind.VETH if as_device else trial.port_kind
    kinds = usable_ports(can, held, trial.io, wanted)
    if remote:  # the agent there makes a node before there is a switch that could make its port
        kinds = [kind for kind in kinds if kind not in MADE_BY_SWITCH]
        kinds = [PortKind.VETH] if trial.switch == WIRE else kinds  # as the cable's end is
    topology = expand_scenario(trial)
    placement = _place(trial, can, topology.pairs(), cores)
    switch = configured(SWITCHES[trial.switch](), trial.switch_options)
    if splits(switch):
        chain = resolve_scenario(trial.scenario)
        switch.split = split_of(trial, chain.chain if chain else 0)
    if has_main_thread(switch):
        switch.main_core = placement.switch_main_core
    far = _far_side(trial, can, topology, site) if remote and site is not None else None
    return TrialPlan(
        trial=trial,
        topology=topology,
        environment=ENVIRONMENTS[trial.environment](),
        switch=switch if far is None else _across(switch, far, topology),
        far=far,
        mode=trial.connect_mode or can.connect_modes[0],
        port_kind=kinds[0],
        placement=placement,
        policy=campaign.trim,
        verify=campaign.verify,
        mixed_connect_modes=campaign.mixed_connect_modes,
        wires=ENVIRONMENTS[WIRE_ENVIRONMENT](),
    )


def _far_side(trial: Trial, can: Capabilities, topology: Topology, site: Site) -> FarSide:
    return FarSide(
        site,
        _demand(trial, can, topology.pairs(far=True)),
        trial.environment,
        WIRE_ENVIRONMENT,
        SiteSwitch(site, trial.switch, trial.switch_options),
    )


def _across(switch: Switch, far: FarSide, topology: Topology) -> Switch:
    """One switch on each host; without a switch the cable itself."""
    cable = far.site.testbed.cable
    if isinstance(switch, Direct):
        switch.cable = f"{cable.near} to {cable.far}"
        return switch
    for end in (cable.near, cable.far):
        if (refused := cable_problem(switch.name, switch.capabilities, end)) is not None:
            raise UsageError(f"{far.site.testbed.path}: cables: {end}: {refused}")
    return AcrossHosts(switch, far.switch, CableEnds(cable.near, cable.far, topology.far_ports))


def baseline_of(plan: TrialPlan, can: Capabilities) -> Trial | None:
    """The trial over the bare wire that this one is judged against; None for the wire itself.

    Its placement must be the trial's own: with the switch's cores left idle. Between hosts the
    wire is their cable, where that can carry the trial; else it is one on this host."""
    if plan.trial.switch == WIRE or plan.port_kind in MADE_BY_SWITCH:
        return None  # (such a port is not there without its switch, so it has no bare wire)
    scenario = without_vnfs(plan.trial.scenario)
    io = resolve_io(plan.trial.io, plan.port_kind)
    cabled = over_cable(plan)
    wireless = plan.trial.environment in WIRELESS or (cabled and plan.trial.environment == "bare")
    if wireless and not cabled and scenario != "p2p":
        return None
    return plan.trial.model_copy(
        update={
            "switch": WIRE,
            "location": "remote" if cabled else "local",
            "connect_mode": ConnectMode.CROSS_CONNECT,
            "port_kind": PortKind.VETH if cabled else wire_kind(plan.port_kind),
            "io": io,
            "switch_cores": 1,
            "switch_options": "",
            "spare_cores": 0 if can.in_kernel else plan.trial.switch_cores,
            "repetition": 0,
            "scenario": scenario,
            "vnf": Trial.model_fields["vnf"].default,
            "cpu_limit": None,
            "neighbour": "none",
            "neighbour_cpus": "any",
            **({"split": "none", "pairs": 1} if plan.trial.split != "none" else {}),
            "main_cpu": "auto",
            "switch_environment": HOST,
            "nics": "",  # what the applications can do at best, not what the ports can
            **({"switch_cpus": "auto"} if can.in_kernel else {}),
            **({"environment": WIRE_ENVIRONMENT} if wireless else {}),
            **_ceiling_only(plan),
        }
    )


def _ceiling_only(plan: TrialPlan) -> dict[str, object]:
    """Of the wire, a method of many trials wants the ceiling: one saturating run."""
    if plan.trial.method is Method.PLAIN:
        return {}
    return {
        "method": Method.PLAIN,
        "goals": "csit",
        "budget_s": None,
        "rate_pps": None,
        "schedule": "constant",
        "probe_rate_pps": None,
        "duration_s": plan.policy.warm_up_s + plan.policy.cool_down_s + CEILING_RUN_S,
    }


def check_available(steps: Sequence[Step]) -> None:
    """Ask every switch and environment of these steps whether this machine can run it.

    Raises `UnavailableError`, one line each, before anything is started."""
    problems = []
    for name in {step.plan.trial.neighbour: None for step in steps}:
        if name != "none" and not (found := probe_neighbour(name)).available:
            remedy = f"; {found.remedy}" if found.remedy else ""
            problems.append(f"neighbour {name} cannot run here: {found.reason}{remedy}")
    for name in {step.plan.trial.switch_environment: None for step in steps}:
        if (lacking := contained_problem(name)) is not None:
            problems.append(lacking)
    environments = {step.plan.environment.name: step.plan.environment for step in steps}
    probes = [
        *((f"switch {name}", probe) for (name, _), probe in _probe_switches(steps).items()),
        *((f"environment {name}", each.probe()) for name, each in environments.items()),
    ]
    for what, probe in probes:
        if not probe.available:
            problems.append(f"{what} cannot run here: {_why(probe)}")
    problems += _nic_problems(steps)
    problems = list(dict.fromkeys(problems))  # a switch in several modes
    far = {(f.switch.name, step.plan.mode): f for step in steps if (f := step.plan.far) is not None}
    for (_, mode), side in far.items():
        problems += side.check(mode)
    if problems:
        raise UnavailableError("\n".join(problems))


def _nic_problems(steps: Sequence[Step]) -> list[str]:
    """Which of the host's ports, that are to be lent, cannot be."""
    wanted: dict[str, int] = {}
    for trial in (step.plan.trial for step in steps):
        mtu_bytes = max(STANDARD_MTU_BYTES, trial.frame_sizes.largest - ETHERNET_OVERHEAD_BYTES)
        for name in (name for nic in parse_nics(trial.nics) for name in nic.both):
            wanted[name] = max(mtu_bytes, wanted.get(name, 0))
    problems = []
    for name, mtu_bytes in wanted.items():
        if is_pci(name):
            problem = pci_problem(name)
            problems += [f"nics: {name} {problem}"] if problem else []
            continue
        try:
            check_facing(LocalHost(), name, mtu_bytes)
        except UnavailableError as error:
            problems.append(f"nics: {error}")
    return problems


def leave_out_unavailable(steps: Sequence[Step]) -> tuple[list[Step], list[str]]:
    """The steps of the switches that this machine can run, and why the others are left out.

    Raises `UnavailableError` when it can run none of them."""
    contenders = [step for step in steps if not step.is_baseline]
    probes = _probe_switches(contenders)
    reasons = list(
        dict.fromkeys(
            f"{name}: {_why(probe)}" for (name, _), probe in probes.items() if not probe.available
        )
    )
    kept = [s for s in contenders if probes[s.plan.switch.name, s.plan.mode].available]
    if not kept:
        raise UnavailableError("none of the switches can run here\n" + "\n".join(reasons))
    wires = {step.baseline.id for step in kept if step.baseline is not None}
    return [s for s in steps if s.is_baseline and s.plan.trial.id in wires] + kept, reasons


def _probe_switches(steps: Sequence[Step]) -> dict[tuple[str, ConnectMode], Probe]:
    """Each switch asked once for each of its connect modes."""
    plans = {(step.plan.switch.name, step.plan.mode): step.plan for step in steps}
    return {which: probe_for(plan.switch, plan.mode) for which, plan in plans.items()}


def _why(probe: Probe) -> str:
    return f"{probe.reason}" + (f"; {probe.remedy}" if probe.remedy else "")


def _place(
    trial: Trial, can: Capabilities, pairs: tuple[tuple[str, ...], ...], cores: Cores
) -> Placement:
    spare = trial.spare_cores
    demand = _demand(trial, can, pairs)
    placement = cores.place(demand)
    if trial.neighbour != "none":
        beside = cores_of(trial, placement)
        placement = placement.model_copy(update={"neighbour_cores": beside})
    if trial.switch == WIRE:
        return placement.model_copy(
            update={
                "switch_cores": [],
                "reason": placement.reason + (f"; {spare} core(s) left idle" if spare else ""),
            }
        )
    return placement


def _demand(trial: Trial, can: Capabilities, pairs: tuple[tuple[str, ...], ...]) -> Demand:
    spare = trial.spare_cores
    return Demand(
        pairs=pairs,
        polling_switch=can.polling or spare > 0,
        in_kernel_switch=can.in_kernel and spare == 0,
        switch_cores=spare or trial.switch_cores,
        idle=trial.idle,
        switch_cpus=_cores(trial.switch_cpus),
        application_cpus=_cores(trial.application_cpus),
        main_cpu=None if trial.main_cpu == "auto" else int(trial.main_cpu),
        smt=trial.smt,
        numa=trial.numa,
    )


def _cores(text: str) -> tuple[int, ...]:
    """The cores that a campaign names; none: placement chooses."""
    return () if text == "auto" else tuple(int(core) for core in text.split("+"))
