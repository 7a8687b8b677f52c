"""What a sweep cannot ask of a switch, and why, by what the switch says it can.

What scenario, environment and port kind together forbid is in `possible.py`. A reason ends with
what to do instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from switchmark.campaign import traffic
from switchmark.campaign.model import WIRE, Campaign, Dimension, Io, Method, Sweep, Trial
from switchmark.campaign.port_kinds import usable_ports
from switchmark.campaign.possible import cpu_refusals, environment_refusals, scenario_refusals
from switchmark.switch import options
from switchmark.switch.base import Capabilities, ConnectMode, PortKind
from switchmark.switch.changes import UNKNOWN_WAY

RING = Trial.model_fields["ring"].default


def refusals(
    sweep: Sweep,
    switch: str,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[str]:
    """Why this switch cannot do what the sweep asks, a line for each reason."""
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


def chosen_modes_refusals(
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
