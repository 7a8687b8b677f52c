"""Parts of a sweep that a switch cannot do, by its capabilities.

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
    """The reasons why this switch cannot do what the sweep asks, one line each."""
    can = capabilities.get(switch)
    if can is None:
        known = ", ".join(capabilities) or "none"
        yield Refusal(f"switch '{switch}' is not installed here (known: {known})")
        return
    for mode in sweep.connect_mode:
        if mode is not None and not can.can_connect(mode):
            yield Refusal(
                f"{switch} cannot do connect_mode {mode} (it can: {', '.join(can.connect_modes)})",
                instead=f"choose one of these, or leave {switch} out",
            )
    if any(sweep.program) and not can.takes_program:
        yield Refusal(
            f"{switch} has no program of its own that could be chosen", "use program: auto"
        )
    yield from _method_refusals(sweep, switch, can)
    for each in sweep.switch_options:
        chosen = each.chosen
        if (refusal := options.refusal(switch, can, chosen)) is not None:
            yield replace(refusal, remedy="change it, or give each switch its own sweep")
            continue
        modes = filter(None, sweep.connect_mode)
        yield from filter(None, [options.mode_refusal(switch, can, chosen, one) for one in modes])
        cores = sweep.switch_cores
        yield from filter(None, [options.cores_refusal(switch, can, chosen, one) for one in cores])
        yield from _io_refusals(sweep, switch, can, chosen)
    most = max(sweep.switch_cores)
    if most > 1 and not can.multi_core:
        yield Refusal(
            f"{switch} runs on one core only, not on switch_cores {most}", "use switch_cores: 1"
        )
    yield from frame_refusals(sweep)
    if can.is_network:
        yield from network_refusals(sweep, switch)
    yield from existing_refusals(sweep, switch)
    yield from tag_refusals(sweep, switch, can)
    yield from _long_frame_refusals(sweep, switch, can)
    yield from scenario_refusals(sweep, switch, can)
    yield from _cpu_refusals(sweep, switch, can)
    if "4KiB" in sweep.page_size and can.needs_hugepages:
        yield Refusal(
            f"{switch} works in hugepages only, not with page_size 4KiB", f"leave {switch} out"
        )
    yield from function_refusals(sweep, switch, can)
    yield from _port_refusals(sweep, switch, can, environment_ports)
    yield from generator_refusals(sweep, switch, can, environment_ports)


def _long_frame_refusals(sweep: Sweep, switch: str, can: Capabilities) -> Iterator[Refusal]:
    """Frames that do not fit into the switch's buffers."""
    longest = can.longest_frame_bytes
    for mix in sweep.packet_mix:
        largest = mix.sizes.largest if mix else max(sweep.packet_size_bytes)
        if longest is not None and largest > longest:
            yield Refusal(
                f"packet_{'mix' if mix else 'size'}: {largest} is above {longest}, the longest "
                f"frame that {switch} takes",
                f"use {longest} or less",
                instead=f"leave {switch} out",
            )


def _io_refusals(
    sweep: Sweep, switch: str, can: Capabilities, chosen: Mapping[str, str]
) -> Iterator[Refusal]:
    """Applications that cannot use the ports that an option gives them."""
    has_chain = any(scenario.chain for scenario in sweep.scenario)
    for option, value, only in options.io_required(can, chosen):
        problem = f"{switch}: with {option.name}: {value} ports are for io {only} alone"
        usual = f"{option.name}: {option.default}"
        for io in sweep.io:
            if io != only:
                yield Refusal(f"{problem}, not {io}", f"use io: {only}, or {usual}")
        if has_chain:
            yield Refusal(
                f"{problem}, and VNFs use devices", f"use a scenario without a chain, or {usual}"
            )


def chosen_modes_refusals(
    campaign: CampaignDefinition,
    capabilities: Mapping[str, Capabilities],
    modes: Mapping[str, ConnectMode],
) -> Iterator[Refusal]:
    """Switch options that the mode that `auto` stands for does not allow."""
    for sweep in campaign.sweeps:
        if None not in sweep.connect_mode:
            continue
        for switch, each in product(sweep.switch, sweep.switch_options):
            can, chosen = capabilities[switch], each.chosen
            mode = modes.get(switch, ConnectMode.ROUTE)  # which needs no choice
            if (refusal := options.mode_refusal(switch, can, chosen, mode)) is not None:
                yield refusal


def _cpu_refusals(sweep: Sweep, switch: str, can: Capabilities) -> Iterator[Refusal]:
    """Limits of CPU time and choices of cores that the switch does not allow."""
    if can.in_kernel and any(limit is not None for limit in sweep.cpu_limit):
        yield Refusal(
            f"{switch} works in the kernel, on the senders' CPU time, and has none of its own that "
            "cpu_limit could limit",
            "leave it out of this sweep",
        )
    for place in sweep.switch_environment:
        if place not in can.runs_in:
            yield Refusal(
                f"{switch} does not run in {place}", f"it runs in: {', '.join(can.runs_in)}"
            )
    if set(sweep.main_cpu) != {"auto"} and not can.main_thread:
        yield Refusal(f"{switch} has no main thread apart from what forwards", "use main_cpu: auto")
    for name, words, nothing in (("smt", sweep.smt, "siblings"), ("numa", sweep.numa, "other")):
        if can.in_kernel and nothing in words:
            yield Refusal(
                f"{switch} works on the senders' cores and has none of its own, so {name}: "
                f"{nothing} has no meaning",
                "name the cores with application_cpus",
            )
    if "generator-apart" in sweep.numa:
        yield from _apart_refusals(sweep)
    for cpus in sweep.switch_cpus:
        if cpus == "auto":
            continue
        if can.in_kernel:
            yield Refusal(
                f"{switch} works in the kernel, on the senders' cores", "use switch_cpus: auto"
            )
        elif cpus == "any":
            yield from _unpinned_refusals(sweep)
        elif sweep.switch_cores != (count := len(cpus.cores),):
            yield Refusal(f"switch_cpus {cpus}: set switch_cores to the number of these, {count}")


def _apart_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Keys that place applications elsewhere, where the generator is to be apart."""
    told = "numa: generator-apart places every application"
    for name in sweep.scenario:
        if name.is_known and NodePlace.WIRE not in PLACES[name.kind]:
            yield Refusal(
                f"scenario {name} has no wire ends that a generator could have", "use numa: same"
            )
    if "remote" in sweep.location:
        yield Refusal(f"{told}, on one host", "leave location: remote out")
    if set(sweep.application_cpus) != {"auto"}:
        yield Refusal(f"{told}", "use application_cpus: auto")
    if "siblings" in sweep.smt:
        yield Refusal(f"{told} off the switch's siblings", "use smt: auto or avoid")


def _unpinned_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Keys that place a switch whose threads the kernel is to move."""
    told = "switch_cpus: any leaves the switch where the kernel puts it"
    if "remote" in sweep.location:
        yield Refusal(f"{told}, on this host only", "leave location: remote out")
    if set(sweep.main_cpu) != {"auto"}:
        yield Refusal(f"{told}, its main thread, too", "use main_cpu: auto")
    if "siblings" in sweep.smt:
        yield Refusal(f"{told}, so nothing is beside it", "use smt: auto or avoid")
    if {"other", "generator-apart"} & set(sweep.numa):
        yield Refusal(f"{told}, so nothing is on another node", "use numa: auto or same")
    if "switch" in sweep.neighbour_cpus and set(sweep.neighbour) != {"none"}:
        yield Refusal(
            f"{told}, so no neighbour is pinned to it", "use neighbour_cpus: any, or name cores"
        )


def _method_refusals(sweep: Sweep, switch: str, can: Capabilities) -> Iterator[Refusal]:
    for method in sweep.method:
        if method == PLAIN:
            continue
        if sweep.dimension is not Dimension.THROUGHPUT:
            yield Refusal(f"method {method} finds a throughput", "use dimension: throughput")
        yield from METHODS[method].refusals(sweep, switch, can)
        if METHODS[method].times_frames:
            yield from _clock_refusals(sweep, method)


def _clock_refusals(sweep: Sweep, method: str) -> Iterator[Refusal]:
    """Ends whose clocks are not compared. (A round trip is timed at one end.)"""
    guests = [name for name in sweep.environment if traits_of(name).guests]
    ends = [scenario.kind for scenario in sweep.scenario if scenario.is_known]
    if guests and any(NodePlace.ENVIRONMENT in PLACES[kind] for kind in ends):
        yield Refusal(
            f"method {method} times frames from one end to the other, and a guest of {guests[0]} "
            "has its own clock",
            "use a scenario whose ends are wires (p2p, loopback-N), or "
            "dimension: latency, which times round trips",
        )


def _port_refusals(
    sweep: Sweep,
    switch: str,
    can: Capabilities,
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[Refusal]:
    for environment in sweep.environment:
        offered = None if environment_ports is None else environment_ports.get(environment)
        if environment_ports is not None and offered is None:
            yield Refusal(f"environment '{environment}' is not installed here")
            continue
        if not usable_ports(can, offered):
            yield Refusal(
                f"{switch} has {', '.join(can.port_kinds)} ports, and environment {environment} "
                f"offers {', '.join(offered or ())}",
                "choose another environment",
            )
            continue
        for io, kind in product(sweep.io, sweep.port_kind):
            if kind is not None and not usable_ports(can, offered, port_kind=kind):
                has = ", ".join(usable_ports(can, offered))
                yield Refusal(
                    f"{switch} in {environment} has no {kind} port (it has: {has})",
                    "use port_kind: auto",
                )
            elif not usable_ports(can, offered, io, kind):
                has = ", ".join(usable_ports(can, offered, port_kind=kind))
                yield Refusal(
                    f"io {io} needs a kernel port, and {switch} in {environment} has {has} only",
                    "use io: dpdk or auto",
                )
            else:
                usable = usable_ports(can, offered, io, kind)
                best = usable[0]
                in_guests = traits_of(environment).guests
                guests = " ports of guests" if in_guests else ""
                if set(sweep.ring) != {RING} and (best is not PortKind.VHOST_USER or in_guests):
                    yield Refusal(
                        f"ring applies to vhost-user ports of a process, and {switch} in "
                        f"{environment} has {best}{guests}",
                        "leave it out",
                    )
                yield from environment_refusals(sweep, switch, can, environment, best, io)
