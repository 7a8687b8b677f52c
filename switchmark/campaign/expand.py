"""From a campaign to its trials: connect modes settled, impossible ones refused, order drawn.

Pure: what a switch and an environment can do comes in as arguments. Each repetition is a
block that holds every trial once; inside a block the order is random, so that drift of the
machine hits all switches alike. The order follows from the seed alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from switchmark.campaign import rates, traffic
from switchmark.campaign.model import (
    SWEPT_FIELDS,
    Campaign,
    Dimension,
    Io,
    Method,
    Sweep,
    Trial,
    usual_time_s,
)
from switchmark.campaign.possible import cpu_refusals, environment_refusals, scenario_refusals
from switchmark.errors import UsageError
from switchmark.scenario.registry import settle
from switchmark.switch import options
from switchmark.switch.base import Capabilities, ConnectMode, PortKind
from switchmark.switch.changes import UNKNOWN_WAY

RING = Trial.model_fields["ring"].default
WIRE = "direct"  # no switch at all, so it has no connect mode that could be unfair
KERNEL_PORTS = frozenset({PortKind.VETH, PortKind.TAP, PortKind.MACVLAN, PortKind.VF})

# What the bench takes around a trial, for the estimate of the time left; measured values
# replace it as soon as the first trials have run.
OVERHEAD_KERNEL_S = 1.0
OVERHEAD_POLLING_S = 4.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long the trials will take, in seconds."""

    measuring_s: float  # the durations (of searches, the usual), and latency trials' warm-up
    overhead_s: float  # a guess: deploying, verifying, tearing down

    @property
    def total_s(self) -> float:
        """Measuring and everything around it."""
        return self.measuring_s + self.overhead_s


def expand(
    campaign: Campaign,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None = None,
) -> list[Trial]:
    """All trials of the campaign in the order in which they are to run.

    Raises `UsageError`, one line a problem, when a switch cannot do what is asked of it or
    when switches would be compared in different connect modes without saying so."""
    campaign, _ = leave_out_unable(campaign, capabilities, environment_ports)
    problems = [
        problem
        for sweep in campaign.sweeps
        for switch in sweep.switch
        for problem in _refusals(sweep, switch, capabilities, environment_ports)
    ]
    modes: dict[str, ConnectMode] = {}
    if not problems:
        modes, problems = choose_modes(campaign, capabilities)
        problems = problems or list(_chosen_modes_refusals(campaign, capabilities, modes))
    if problems:
        unique = dict.fromkeys(f"{campaign.name}: {problem}" for problem in problems)
        raise UsageError("\n".join(unique))
    settle = _Settler(modes, capabilities, environment_ports)
    trials = dict.fromkeys(settle(t) for sweep in campaign.sweeps for t in trials_of(sweep))
    return _in_blocks(list(trials), campaign)


def leave_out_unable(
    campaign: Campaign,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None = None,
) -> tuple[Campaign, list[str]]:
    """With `skip_unavailable`, the campaign without the switches that cannot do what is asked,
    and why they are left out. A sweep that none can do stays as it is, to be refused."""
    if not campaign.skip_unavailable:
        return campaign, []
    sweeps, reasons = [], []
    for sweep in campaign.sweeps:
        refused = {
            switch: list(_refusals(sweep, switch, capabilities, environment_ports))
            for switch in sweep.switch
        }
        able = tuple(switch for switch, problems in refused.items() if not problems)
        sweeps.append(sweep.model_copy(update={"switch": able}) if able else sweep)
        reasons += [problem for problems in refused.values() for problem in problems if able]
    return campaign.model_copy(update={"sweeps": tuple(sweeps)}), list(dict.fromkeys(reasons))


def trials_of(sweep: Sweep) -> Iterator[Trial]:
    """Every combination of the sweep's values, connect modes as written, no order drawn.

    Bit rates become packets a second here, since that takes the packet size."""
    axes = (getattr(sweep, field) for field in SWEPT_FIELDS)
    for values in product(*axes):
        fields = dict(zip(SWEPT_FIELDS, values, strict=True))
        if mix := fields["packet_mix"]:
            fields["packet_size_bytes"] = round(traffic.mix(mix).mean)
        if isinstance(fields["rate_pps"], rates.BitRate):
            fields["rate_pps"] = fields["rate_pps"].pps(
                traffic.mix(mix).mean if mix else fields["packet_size_bytes"]
            )
        if rates.has_own_rate(fields["schedule"]):
            fields["rate_pps"] = None
        yield Trial(dimension=sweep.dimension, **fields)


def estimate(
    campaign: Campaign, trials: Sequence[Trial], capabilities: Mapping[str, Capabilities]
) -> Estimate:
    """How long these trials of the campaign will take."""
    overhead_s = sum(
        OVERHEAD_POLLING_S if capabilities[trial.switch].polling else OVERHEAD_KERNEL_S
        for trial in trials
    )
    warm_ups = sum(trial.dimension is Dimension.LATENCY for trial in trials)
    running_s = sum(usual_time_s(trial) for trial in trials)
    return Estimate(running_s + warm_ups * campaign.trim.warm_up_s, overhead_s)


def usable_ports(
    capabilities: Capabilities,
    environment_ports: Sequence[PortKind] | None,
    io: Io = Io.AUTO,
    port_kind: PortKind | None = None,
) -> list[PortKind]:
    """The port kinds that switch, environment and traffic I/O all have, best first.

    Sockets (udp, raw) and netmap need a kernel device; DPDK reaches every kind but a VALE port,
    which is netmap's own."""
    return [
        kind
        for kind in capabilities.port_kinds
        if port_kind in {None, kind}
        and (environment_ports is None or kind in environment_ports)
        and _reaches(io, kind)
    ]


def _reaches(io: Io, kind: PortKind) -> bool:
    if io is Io.AUTO:
        return True
    if kind is PortKind.VALE:
        return io is Io.NETMAP
    return io is Io.DPDK or kind in KERNEL_PORTS


class _Settler:
    """Puts what `auto` stands for into a trial, as far as the comparison depends on it.

    The port kind stays open (the switch's best) unless the I/O cannot use that one."""

    def __init__(
        self,
        modes: Mapping[str, ConnectMode],
        capabilities: Mapping[str, Capabilities],
        environment_ports: Mapping[str, Sequence[PortKind]] | None,
    ) -> None:
        self.modes = modes
        self.capabilities = capabilities
        self.environment_ports = environment_ports
        self.forced: dict[tuple[str, str, Io], PortKind | None] = {}

    def __call__(self, trial: Trial) -> Trial:
        update: dict[str, object] = {}
        if trial.connect_mode is None:
            update["connect_mode"] = self.modes[trial.switch]
        if trial.port_kind is None:
            where = trial.switch, trial.environment, trial.io
            if where not in self.forced:
                self.forced[where] = self._forced_port(*where)
            update["port_kind"] = self.forced[where]
        return settle(trial.model_copy(update=update) if update else trial)

    def _forced_port(self, switch: str, environment: str, io: Io) -> PortKind | None:
        can = self.capabilities[switch]
        offered = None if self.environment_ports is None else self.environment_ports[environment]
        best, usable = usable_ports(can, offered)[0], usable_ports(can, offered, io)[0]
        return None if usable is best else usable


def _in_blocks(trials: list[Trial], campaign: Campaign) -> list[Trial]:
    # random() alone is promised to give the same sequence in every Python version.
    draw = random.Random(campaign.seed).random
    ordered: list[Trial] = []
    for repetition in range(campaign.repetitions):
        block = [trial.repeated(repetition) for trial in trials]
        block.sort(key=lambda _trial: draw())
        ordered += block
    return ordered


def choose_modes(
    campaign: Campaign, capabilities: Mapping[str, Capabilities]
) -> tuple[dict[str, ConnectMode], list[str]]:
    """The connect mode that `auto` stands for, a switch; and what forbids the comparison.

    Without leave to mix, all switches take one mode that each of them has: the one that is
    the natural mode of the most. With leave, each takes its own natural mode."""
    everyone = list(dict.fromkeys(s for sweep in campaign.sweeps for s in sweep.switch))
    natural = {switch: capabilities[switch].connect_modes[0] for switch in everyone}
    automatic = list(
        dict.fromkeys(
            switch
            for sweep in campaign.sweeps
            for switch in sweep.switch
            if None in sweep.connect_mode and switch != WIRE
        )
    )
    chosen = dict(natural)
    if automatic and not campaign.mixed_connect_modes:
        shared = [
            mode
            for mode in ConnectMode
            if all(mode in capabilities[switch].connect_modes for switch in automatic)
        ]
        if not shared:
            return {}, [_no_shared_mode(automatic, capabilities)]
        favourite = max(shared, key=lambda m: sum(natural[switch] is m for switch in automatic))
        chosen |= dict.fromkeys(automatic, favourite)
    if campaign.mixed_connect_modes:
        return chosen, []
    return chosen, _mixed(campaign, chosen)


def _no_shared_mode(switches: Sequence[str], capabilities: Mapping[str, Capabilities]) -> str:
    offers = "; ".join(f"{s}: {', '.join(capabilities[s].connect_modes)}" for s in switches)
    return (
        f"no connect mode is common to all switches ({offers}); choose switches that share one, "
        "or set mixed_connect_modes: true to run each in its own"
    )


def _mixed(campaign: Campaign, chosen: Mapping[str, ConnectMode]) -> list[str]:
    modes: dict[str, set[ConnectMode]] = {}
    for sweep in campaign.sweeps:
        for switch in sweep.switch:
            if switch != WIRE:
                found = modes.setdefault(switch, set())
                found.update(chosen[switch] if m is None else m for m in sweep.connect_mode)
    if len({frozenset(found) for found in modes.values()}) <= 1:
        return []
    runs = "; ".join(f"{switch}: {', '.join(sorted(found))}" for switch, found in modes.items())
    return [
        f"the switches would run in different connect modes ({runs}); give all of them the same, "
        "or set mixed_connect_modes: true to compare them all the same"
    ]


def _refusals(
    sweep: Sweep,
    switch: str,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[str]:
    can = capabilities.get(switch)
    if can is None:
        known = ", ".join(capabilities) or "none"
        yield f"switch '{switch}' is not installed here (known: {known})"
        return
    for mode in sweep.connect_mode:
        if mode is not None and mode not in can.connect_modes:
            yield (
                f"{switch} cannot do connect_mode {mode} (it can: {', '.join(can.connect_modes)}); "
                f"choose one of these, or leave {switch} out"
            )
    yield from _method_refusals(sweep, switch, can)
    for text in sweep.switch_options:
        chosen = options.parse(text)
        message = options.refusal(switch, can, chosen)
        if message is not None:
            yield f"{message}; change it, or give each switch a sweep of its own"
            continue
        for mode in filter(None, sweep.connect_mode):
            if (message := options.mode_refusal(switch, can, chosen, mode)) is not None:
                yield message
    cores = max(sweep.switch_cores)
    if cores > 1 and not can.multi_core:
        yield f"{switch} runs on one core only, not on switch_cores {cores}; use switch_cores: 1"
    yield from _frame_refusals(sweep)
    yield from scenario_refusals(sweep, switch, can)
    yield from cpu_refusals(sweep, switch, can)
    yield from _port_refusals(sweep, switch, can, environment_ports)


def _chosen_modes_refusals(
    campaign: Campaign, capabilities: Mapping[str, Capabilities], modes: Mapping[str, ConnectMode]
) -> Iterator[str]:
    """Switch options that cannot be in the mode that `auto` stands for."""
    for sweep in campaign.sweeps:
        if None not in sweep.connect_mode:
            continue
        for switch, text in product(sweep.switch, sweep.switch_options):
            can, chosen = capabilities[switch], options.parse(text)
            if (message := options.mode_refusal(switch, can, chosen, modes[switch])) is not None:
                yield message


def _frame_refusals(sweep: Sweep) -> Iterator[str]:
    """What frames cannot be, whatever the switch."""
    for version, vlan in product(sweep.ip_version, sweep.vlan):
        least = traffic.smallest_frame(version, vlan)
        kind = f"IPv{version} frame" + (f" with vlan {vlan}" if vlan else "")
        for mix in sweep.packet_mix:
            smallest = traffic.mix(mix).smallest if mix else min(sweep.packet_size_bytes)
            if smallest < least:
                yield (
                    f"packet_{'mix' if mix else 'size'}: {smallest} is below {least}, the smallest "
                    f"{kind} that holds the engine's stamp; use {least} or more"
                )
    special = [flows for flows in sweep.flows if flows != "1"]
    special += [f"vlan {vlan}" for vlan in sweep.vlan if vlan]
    special += [f"ip_version {version}" for version in sweep.ip_version if version != 4]
    for io in sweep.io:
        if special and io in (Io.UDP, Io.UDP_MMSG):
            yield (
                f"io {io} cannot send {special[0]}: the kernel writes the headers of its frames; "
                "use raw or dpdk"
            )
    for flows in sweep.flows:
        fields = traffic.flow_fields(flows)
        if "vlan" in fields and "" in sweep.vlan:
            yield f"flows {flows}: the frames have no tag to differ in; give vlan"
        macs = sorted(field for field in fields if field.endswith("-mac"))
        if macs and set(sweep.connect_mode) != {ConnectMode.CROSS_CONNECT}:
            yield (
                f"flows {flows}: a switch that goes by MAC addresses is taught those of the "
                f"applications only, not every {macs[0]}; use connect_mode: cross-connect"
            )


def _method_refusals(sweep: Sweep, switch: str, can: Capabilities) -> Iterator[str]:
    for method in sweep.method:
        if method is Method.PLAIN:
            continue
        if sweep.dimension is not Dimension.THROUGHPUT:
            yield f"method {method} finds a throughput; use dimension: throughput"
        if method is Method.SOAK and None in sweep.rate_pps:
            yield "method soak tests one load; give its rate"
        if method is Method.CALIBRATE and switch != WIRE:
            yield f"method calibrate is of the bare wire; use switch: {WIRE}, not {switch}"
        if method in (Method.RECOVERY, Method.RECONFIGURATION) and switch == WIRE:
            yield f"method {method} needs a switch; leave {WIRE} out"
        elif method is Method.RECONFIGURATION and not can.reconfigures:
            yield (
                f"{switch}: {can.settled or UNKNOWN_WAY}; leave it out of method reconfiguration"
            )


def _port_refusals(
    sweep: Sweep,
    switch: str,
    can: Capabilities,
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[str]:
    for environment in sweep.environment:
        offered = None if environment_ports is None else environment_ports.get(environment)
        if environment_ports is not None and offered is None:
            yield f"environment '{environment}' is not installed here"
            continue
        if not usable_ports(can, offered):
            yield (
                f"{switch} has {', '.join(can.port_kinds)} ports, and environment {environment} "
                f"offers {', '.join(offered or ())}; choose another environment"
            )
            continue
        for io, kind in product(sweep.io, sweep.port_kind):
            if kind is not None and not usable_ports(can, offered, port_kind=kind):
                has = ", ".join(usable_ports(can, offered))
                yield (
                    f"{switch} in {environment} has no {kind} port (it has: {has}); "
                    "use port_kind: auto"
                )
            elif not usable_ports(can, offered, io, kind):
                has = ", ".join(usable_ports(can, offered, port_kind=kind))
                yield (
                    f"io {io} needs a kernel port, and {switch} in {environment} has {has} only; "
                    "use io: dpdk or auto"
                )
            else:
                best = usable_ports(can, offered, io, kind)[0]
                guests = " ports of guests" if environment == "qemu" else ""
                if set(sweep.ring) != {RING} and (
                    best is not PortKind.VHOST_USER or environment == "qemu"
                ):
                    yield (
                        f"ring is of vhost-user ports that a process has, and {switch} in "
                        f"{environment} has {best}{guests}; leave it out"
                    )
                yield from environment_refusals(sweep, switch, can, environment, best, io)
