"""The parts of a sweep that a switch does not support, by its capabilities.

`layout.py` refuses combinations of scenario, environment and port kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from switchmark.campaign.port_kinds import usable_ports
from switchmark.campaign.rules.existing import existing_refusals
from switchmark.campaign.rules.functions import function_refusals
from switchmark.campaign.rules.generator import generator_refusals
from switchmark.campaign.rules.layout import environment_refusals, scenario_refusals
from switchmark.campaign.rules.traffic import frame_refusals, network_refusals, tag_refusals
from switchmark.environment.registry import traits_of
from switchmark.errors import Refusal
from switchmark.method.registry import METHODS
from switchmark.model import options
from switchmark.model.campaign import CampaignDefinition, Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import PLAIN, Dimension
from switchmark.model.parameter_table import PARAMETERS
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.topology import NodePlace
from switchmark.scenario.registry import PLACES

RING = PARAMETERS["ring"].default


def refusals(
    sweep: Sweep,
    switch: str,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[Refusal]:
    """Yield the reasons why this switch does not support the sweep, one line each."""
    abilities = capabilities.get(switch)
    if abilities is None:
        known = ", ".join(capabilities) or "none"
        yield Refusal(f"switch '{switch}' is not installed here (known: {known})")
        return
    for mode in sweep.connect_mode:
        if mode is not None and not abilities.can_connect(mode):
            yield Refusal(
                f"{switch} cannot do connect_mode {mode} "
                f"(it can: {', '.join(abilities.connect_modes)})",
                instead=f"choose one of these, or leave {switch} out",
            )
    if any(sweep.program) and not abilities.takes_program:
        yield Refusal(f"{switch} has no program that can be chosen", "use program: auto")
    yield from _method_refusals(sweep, switch, abilities)
    for each in sweep.switch_options:
        chosen = each.chosen
        if (refusal := options.refusal(switch, abilities, chosen)) is not None:
            yield replace(refusal, remedy="change it, or give each switch its own sweep")
            continue
        modes = filter(None, sweep.connect_mode)
        yield from filter(
            None, [options.mode_refusal(switch, abilities, chosen, one) for one in modes]
        )
        cores = sweep.switch_cores
        yield from filter(
            None, [options.cores_refusal(switch, abilities, chosen, one) for one in cores]
        )
        yield from _io_refusals(sweep, switch, abilities, chosen)
    most = max(sweep.switch_cores)
    if most > 1 and not abilities.multi_core:
        yield Refusal(
            f"{switch} runs on one core only, not on switch_cores {most}", "use switch_cores: 1"
        )
    yield from frame_refusals(sweep)
    if abilities.is_network:
        yield from network_refusals(sweep, switch)
    yield from existing_refusals(sweep, switch)
    yield from tag_refusals(sweep, switch, abilities)
    yield from _long_frame_refusals(sweep, switch, abilities)
    yield from scenario_refusals(sweep, switch, abilities)
    yield from _cpu_refusals(sweep, switch, abilities)
    if "4KiB" in sweep.page_size and abilities.needs_hugepages:
        yield Refusal(
            f"{switch} works in hugepages only, not with page_size 4KiB", f"leave {switch} out"
        )
    yield from function_refusals(sweep, switch, abilities)
    yield from _port_refusals(sweep, switch, abilities, environment_ports)
    yield from generator_refusals(sweep, switch, abilities, environment_ports)


def _long_frame_refusals(
    sweep: Sweep, switch: str, capabilities: Capabilities
) -> Iterator[Refusal]:
    """Yield refusals of frames that do not fit into the buffers of the switch, or through the
    network of an option."""
    for mix, each in product(sweep.packet_mix, sweep.switch_options):
        largest = mix.sizes.largest if mix else max(sweep.packet_size_bytes)
        longest, that_takes = options.longest_frame(switch, capabilities, each.chosen)
        if longest is not None and largest > longest:
            yield Refusal(
                f"packet_{'mix' if mix else 'size'}: {largest} is above {longest}, the longest "
                f"frame that {that_takes}",
                f"use {longest} or less",
                instead=f"leave {switch} out",
            )


def _io_refusals(
    sweep: Sweep, switch: str, capabilities: Capabilities, chosen: Mapping[str, str]
) -> Iterator[Refusal]:
    """Yield refusals of applications that cannot use the ports of a switch option."""
    has_chain = any(scenario.chain for scenario in sweep.scenario)
    for option, value, only in options.io_required(capabilities, chosen):
        problem = f"{switch}: with {option.name}: {value} ports are only for io {only}"
        usual = f"{option.name}: {option.default}"
        for io in sweep.io:
            if io != only:
                yield Refusal(f"{problem}, not for {io}", f"use io: {only}, or {usual}")
        if has_chain:
            yield Refusal(
                f"{problem}, and VNFs use devices", f"use a scenario without a chain, or {usual}"
            )


def chosen_modes_refusals(
    campaign: CampaignDefinition,
    capabilities: Mapping[str, Capabilities],
    modes: Mapping[str, ConnectMode],
) -> Iterator[Refusal]:
    """Yield refusals of switch options that the mode chosen for `auto` does not permit."""
    for sweep in campaign.sweeps:
        if None not in sweep.connect_mode:
            continue
        for switch, each in product(sweep.switch, sweep.switch_options):
            abilities, chosen = capabilities[switch], each.chosen
            mode = modes.get(switch, ConnectMode.ROUTE)  # which needs no choice
            if (refusal := options.mode_refusal(switch, abilities, chosen, mode)) is not None:
                yield refusal


def _cpu_refusals(sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
    """Yield refusals of limits of CPU time, and of cores that the switch does not support."""
    if capabilities.in_kernel and any(limit is not None for limit in sweep.cpu_limit):
        yield Refusal(
            f"{switch} works in the kernel, on the senders' CPU time, and has no separate CPU time "
            "for cpu_limit",
            "leave it out of this sweep",
        )
    for place in sweep.switch_environment:
        if place not in capabilities.runs_in:
            yield Refusal(
                f"{switch} does not run in {place}",
                f"it runs in: {', '.join(capabilities.runs_in)}",
            )
    if set(sweep.main_cpu) != {"auto"} and not capabilities.main_thread:
        yield Refusal(f"{switch} has no main thread that does not forward", "use main_cpu: auto")
    for name, choices, nothing in (("smt", sweep.smt, "siblings"), ("numa", sweep.numa, "other")):
        if capabilities.in_kernel and nothing in choices:
            yield Refusal(
                f"{switch} works on the senders' cores and has no separate cores, so {name}: "
                f"{nothing} has no meaning",
                "name the cores with application_cpus",
            )
    if "generator-apart" in sweep.numa:
        yield from _apart_refusals(sweep)
    for cpus in sweep.switch_cpus:
        if cpus == "auto":
            continue
        if capabilities.in_kernel:
            yield Refusal(
                f"{switch} works in the kernel, on the senders' cores", "use switch_cpus: auto"
            )
        elif cpus == "any":
            yield from _unpinned_refusals(sweep)
        elif sweep.switch_cores != (count := len(cpus.cores),):
            yield Refusal(f"switch_cpus {cpus}: set switch_cores to the number of these, {count}")


def _apart_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Yield refusals of keys that place applications in another way than `generator-apart`."""
    subject = "numa: generator-apart places every application"
    for name in sweep.scenario:
        if name.is_known and NodePlace.WIRE not in PLACES[name.kind]:
            yield Refusal(f"scenario {name} has no testers for the generator", "use numa: same")
    if "remote" in sweep.location:
        yield Refusal(f"{subject}, on one host", "leave location: remote out")
    if set(sweep.application_cpus) != {"auto"}:
        yield Refusal(subject, "use application_cpus: auto")
    if "siblings" in sweep.smt:
        yield Refusal(f"{subject} off the switch's siblings", "use smt: auto or avoid")


def _unpinned_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Yield refusals of keys that pin a switch whose threads the kernel may move."""
    subject = "switch_cpus: any lets the kernel place the switch"
    if "remote" in sweep.location:
        yield Refusal(f"{subject}, which works on one host only", "leave location: remote out")
    if set(sweep.main_cpu) != {"auto"}:
        yield Refusal(f"{subject} and its main thread", "use main_cpu: auto")
    if "siblings" in sweep.smt:
        yield Refusal(f"{subject}, so no core is its sibling", "use smt: auto or avoid")
    if {"other", "generator-apart"} & set(sweep.numa):
        yield Refusal(f"{subject}, so no node is the other node", "use numa: auto or same")
    if "switch" in sweep.neighbour_cpus and set(sweep.neighbour) != {"none"}:
        yield Refusal(
            f"{subject}, so a neighbour cannot share its cores",
            "use neighbour_cpus: any, or name cores",
        )


def _method_refusals(sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
    for method in sweep.method:
        if method == PLAIN:
            continue
        if sweep.dimension is not Dimension.THROUGHPUT:
            yield Refusal(f"method {method} finds a throughput", "use dimension: throughput")
        yield from METHODS[method].refusals(sweep, switch, capabilities)
        if METHODS[method].times_frames:
            yield from _clock_refusals(sweep, method)


def _clock_refusals(sweep: Sweep, method: str) -> Iterator[Refusal]:
    """Yield refusals of ends with different clocks, which only one-way times need to compare."""
    guests = [name for name in sweep.environment if traits_of(name).guests]
    ends = [scenario.kind for scenario in sweep.scenario if scenario.is_known]
    if guests and any(NodePlace.ENVIRONMENT in PLACES[kind] for kind in ends):
        yield Refusal(
            f"method {method} times frames from one end to the other, and a guest of {guests[0]} "
            "has its own clock",
            "use a scenario whose ends are testers (p2p, loopback-N), or "
            "dimension: latency, which times round trips",
        )


def _port_refusals(
    sweep: Sweep,
    switch: str,
    capabilities: Capabilities,
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[Refusal]:
    for environment in sweep.environment:
        offered = None if environment_ports is None else environment_ports.get(environment)
        if environment_ports is not None and offered is None:
            yield Refusal(f"environment '{environment}' is not installed here")
            continue
        if not usable_ports(capabilities, offered):
            yield Refusal(
                f"{switch} has {', '.join(capabilities.port_kinds)} ports, and environment "
                f"{environment} offers {', '.join(offered or ())}",
                "choose another environment",
            )
            continue
        for io, kind in product(sweep.io, sweep.port_kind):
            if kind is not None and not usable_ports(capabilities, offered, port_kind=kind):
                has = ", ".join(usable_ports(capabilities, offered))
                yield Refusal(
                    f"{switch} in {environment} has no {kind} port (it has: {has})",
                    "use port_kind: auto",
                )
            elif not usable_ports(capabilities, offered, io, kind):
                has = ", ".join(usable_ports(capabilities, offered, port_kind=kind))
                yield Refusal(
                    f"io {io} needs a kernel port, and {switch} in {environment} has {has} only",
                    "use io: dpdk or auto",
                )
            else:
                usable = usable_ports(capabilities, offered, io, kind)
                best = usable[0]
                in_guests = traits_of(environment).guests
                guests = " ports of guests" if in_guests else ""
                if set(sweep.ring) != {RING} and (best is not PortKind.VHOST_USER or in_guests):
                    yield Refusal(
                        f"ring applies to vhost-user ports of a process, and {switch} in "
                        f"{environment} has {best}{guests}",
                        "leave it out",
                    )
                yield from environment_refusals(sweep, switch, capabilities, environment, best, io)
