"""Impossible layouts: combinations of switch, scenario, environment and port kind.

The functions are pure. They refuse a campaign before anything starts, and fill the table of
docs/combinations.md. Each refusal has a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from switchmark.campaign.port_kinds import DEVICES
from switchmark.campaign.rules.between import between_refusals
from switchmark.engine.arguments import resolve_io
from switchmark.environment.registry import names_of, traits_of
from switchmark.errors import Refusal
from switchmark.formatting import first_of
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import WIRE, Dimension, Idle, rewrites
from switchmark.model.io import IO_ROWS, Io, sends_datagrams
from switchmark.model.nics import Nics, is_pci
from switchmark.model.ports import CableEnd, ConnectMode, PortKind
from switchmark.model.scenario import Scenario
from switchmark.model.topology import NodePlace, wire_kind
from switchmark.model.traffic import ONE_FLOW
from switchmark.scenario.registry import PLACES
from switchmark.scenario.support.layout import (
    MOST_CHAINS,
    MOST_PAIRS,
    MOST_PORTS,
    fits,
    ports_of,
    wire_ends,
)
from switchmark.switch.registry import contenders_that
from switchmark.switch.support.cable import end_of

MOST_NAMED = 8  # testers in a message


def wire_problem(switch: str, scenario: Scenario) -> Refusal | None:
    """Return why the scenario is impossible without a switch; None if it is possible."""
    if switch != WIRE:
        return None
    if scenario.chain:
        return Refusal(
            f"{switch} connects two ends, and cannot connect a chain of VNFs", "use p2p or pairs"
        )
    if len(set(PLACES[scenario.kind])) > 1:
        return Refusal(
            f"{switch} connects two ends of the same kind, and {scenario.kind} has two kinds",
            "use p2p or v2v",
        )
    return None


def vnf_problem(vnf: str, kind: PortKind, environment: str) -> Refusal | None:
    """Return why a VNF of this kind cannot have these ports in this environment; None if it can."""
    devices = kind in DEVICES or traits_of(environment).guests
    if vnf == "l2fwd" and resolve_io(Io.AUTO, kind) is not Io.DPDK:
        return Refusal(
            f"vnf l2fwd needs buffers of DPDK, and {kind} has none",
            "use vnf: forwarder, or a switch with vhost-user ports",
        )
    if vnf in ("bridge", "pcap") and not devices:
        return Refusal(
            f"vnf {vnf} needs network devices, and {kind} is a socket",
            "use vnf: forwarder, or a switch with veth ports",
        )
    return None


def mode_problem(switch: str, capabilities: Capabilities, vnf: str) -> Refusal | None:
    """Return why this switch cannot forward through a chain of such VNFs; None if it can."""
    if rewrites(vnf) or ConnectMode.CROSS_CONNECT in capabilities.connect_modes:
        return None
    return Refusal(
        f"vnf {vnf} leaves MAC addresses as they are, so only connect_mode cross-connect can "
        f"carry a chain of them, which {switch} does not have",
        "use vnf: forwarder, l2fwd or pcap",
    )


def network_problem(switch: str, capabilities: Capabilities, scenario: Scenario) -> Refusal | None:
    """Return why a container network cannot carry this scenario; None if it can."""
    if capabilities.is_network and scenario.chain:
        return Refusal(
            f"{switch} attaches applications and no VNFs, which forward frames",
            "use a scenario without a chain",
        )
    return None


def ports_problem(
    switch: str, capabilities: Capabilities, scenario: Scenario, pairs: int
) -> Refusal | None:
    """Return the refusal if the switch has too few ports; None if it has enough."""
    needed = ports_of(pairs, scenario.chain)
    if capabilities.max_ports is None or needed <= capabilities.max_ports:
        return None
    most = capabilities.max_ports // ports_of(1, scenario.chain)
    text = f"{switch} takes at most {capabilities.max_ports} ports, and "
    if scenario.chain:
        return Refusal(
            f"{text}{pairs} x {scenario.canonical} needs {needed}", "use a shorter chain or fewer"
        )
    return Refusal(f"{text}{pairs} pairs need {needed}", f"use pairs up to {most}")


def pairs_problem(scenario: Scenario, pairs: int) -> Refusal | None:
    """Return the refusal if there are too few addresses or names of VNFs for the paths; None if
    there are enough."""
    if fits(pairs, scenario.chain):
        return None
    if not scenario.chain:
        return Refusal(
            f"there are addresses for {MOST_PAIRS} pairs, not for {pairs}", "use pairs up to that"
        )
    return Refusal(
        f"{scenario.canonical}: {pairs} chains of {scenario.chain} VNFs make "
        f"{ports_of(pairs, scenario.chain)} ports",
        f"use at most {MOST_CHAINS} chains, and {MOST_PORTS} ports",
    )


def nodes_have_devices(nics: Nics, capabilities: Capabilities) -> bool:
    """Return True if the nodes in a trial with real ports have network devices, like these ports:
    if the switch supports devices, unless DPDK drives all testers' ports and the switch has
    sockets."""
    if not nics or PortKind.VETH not in capabilities.port_kinds:
        return False
    all_pci = all(is_pci(nic.tester) for nic in nics.cables)
    return not (all_pci and PortKind.VHOST_USER in capabilities.port_kinds)


def _with_end(end: CableEnd) -> str:
    return contenders_that(lambda can: end in can.cable_ends)


def nics_refusals(sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
    """Yield the reasons why testers cannot have real ports in this sweep."""
    named = [cable for nics in sweep.nics for cable in nics.cables]
    if not named:
        return
    if switch == WIRE:
        yield Refusal(
            "direct connects the applications without ports of the host", "leave nics out"
        )
        return
    if not capabilities.cable_ends or capabilities.is_nic:
        yield Refusal(
            f"{switch} takes no port of the host",
            f"leave nics out, or use {_with_end(CableEnd.INTERFACE)}",
        )
    if "remote" in sweep.location:
        yield Refusal("nics work on one host only", "leave them or location: remote out")
    if any(sends_datagrams(io) for io in sweep.io):
        yield Refusal(
            "io udp needs a new address at the port, and nics keep their addresses", "use io: raw"
        )
    pci_ports = [nic.switch for nic in named if is_pci(nic.switch)]
    if pci_ports and CableEnd.PCI not in capabilities.cable_ends:
        yield Refusal(
            f"{switch} drives no PCI port itself ({pci_ports[0]})",
            f"name a network device, or use {_with_end(CableEnd.PCI)}",
        )
    by_socket = any(nodes_have_devices(nics, capabilities) for nics in sweep.nics)
    if by_socket and set(sweep.io) != {Io.DPDK} and any(is_pci(nic.tester) for nic in named):
        yield Refusal("a tester's PCI port needs DPDK", "write io: dpdk, or name a network device")
    for nics, scenario, count, split in product(
        sweep.nics, sweep.scenario, sweep.pairs, sweep.split
    ):
        if not scenario.is_known or not nics:
            continue
        ends = wire_ends(sweep.dimension, scenario.paths or count, PLACES[scenario.kind], split)
        number = len(nics.cables)
        if len(ends) != number:
            yield Refusal(
                f"nics: {nics} names {number} of TESTER/SWITCH, and there are {len(ends)} testers "
                f"({first_of(ends, MOST_NAMED) or f'none in {scenario}'})",
                "name a pair of ports for each tester",
            )


def scenario_refusals(sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
    """Yield the reasons why the switch does not support the sweep's scenarios in any
    environment."""
    if True in sweep.bidirectional and sweep.dimension is Dimension.LATENCY:
        yield Refusal(
            "round trips always use both directions",
            "leave bidirectional out of latency trials, or time "
            "each way under traffic both ways with method: one-way",
        )
    if "remote" in sweep.location:
        yield from between_refusals(sweep, switch, capabilities)
    yield from nics_refusals(sweep, switch, capabilities)
    for scenario in sweep.scenario:
        if not scenario.is_known:
            yield Refusal(
                f"there is no scenario {scenario}", "`switchmark list scenarios` names them"
            )
            continue
        if scenario.paths is not None and sweep.pairs not in ((1,), (scenario.paths,)):
            yield Refusal(f"scenario {scenario} has its number of paths", "leave pairs out")
        pairs = scenario.paths or max(sweep.pairs)
        yield from filter(None, [wire_problem(switch, scenario),
                                 network_problem(switch, capabilities, scenario),
                                 ports_problem(switch, capabilities, scenario, pairs),
                                 pairs_problem(scenario, pairs)])  # fmt: skip
        if scenario.chain:
            yield from _chain_refusals(sweep, switch, capabilities)
        for split in sweep.split:
            if split != "none":
                yield from _split_refusals(sweep, split, switch, capabilities, scenario)


def _split_refusals(
    sweep: Sweep, split: str, switch: str, capabilities: Capabilities, scenario: Scenario
) -> Iterator[Refusal]:
    """Yield the reasons why one stream over several chains does not fit the rest of the sweep."""
    subject = f"split: {split}"
    if not scenario.chain or (scenario.paths or min(sweep.pairs)) < 2:
        yield Refusal(
            f"{subject} needs several chains with one sender",
            "use scenario: chains-MxN, M from 2 on",
        )
    if not capabilities.splits:
        able = contenders_that(lambda capabilities: capabilities.splits)
        yield Refusal(
            f"{switch} has no rules that divide frames between ports", f"use {able}, or no split"
        )
    if set(sweep.connect_mode) != {ConnectMode.CROSS_CONNECT}:
        yield Refusal(
            f"{subject} uses rules from port to port", "write connect_mode: cross-connect"
        )
    if sweep.dimension is not Dimension.THROUGHPUT or True in sweep.bidirectional:
        yield Refusal(
            f"{subject} needs traffic in one direction",
            "use dimension: throughput, bidirectional: false",
        )
    if split == "src-mac" and sweep.flows != (ONE_FLOW,):
        yield Refusal(f"{subject} has one source address for each chain", "leave flows out")
    if split == "flow" and ONE_FLOW in sweep.flows:
        yield Refusal(
            f"{subject} sends one flow through one chain", "use e.g. flows: 1k:src-ip+src-port"
        )


def cable_problem(switch: str, capabilities: Capabilities, end: str) -> Refusal | None:
    """Return why the switch cannot take this end of a cable, an interface or a PCI address, as a
    port; None if it can."""
    if end_of(end) in capabilities.cable_ends:
        return None
    return Refusal(
        f"{switch} takes interfaces of the kernel, and not NICs without a kernel driver",
        "give the NIC back to its kernel driver and name its interface, or use a switch on DPDK",
    )


def _chain_refusals(sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
    for vnf, mode in product(sweep.vnf, sweep.connect_mode):
        if (problem := mode_problem(switch, capabilities, vnf)) is not None:
            yield problem
        elif not rewrites(vnf) and mode is not ConnectMode.CROSS_CONNECT:
            yield Refusal(
                f"vnf {vnf} leaves MAC addresses as they are, so only one connect mode can carry a "
                "chain of them",
                "write connect_mode: cross-connect",
            )


def io_problem(io: Io, environment: str) -> Refusal | None:
    """Return why this I/O cannot be used in this environment; None if it can."""
    traits = traits_of(environment)
    if not traits.own_network and sends_datagrams(io):
        return Refusal(
            f"io {io} needs an IP stack for each end, and all ends in environment {environment} "
            "share that of the host",
            "use io: raw or auto, or environment: netns",
        )
    if not traits.loads_programs and io is not Io.AUTO and "bpf" in IO_ROWS[io].container:
        return Refusal(
            f"io {io} loads a program into the kernel, which {environment} permits only with all "
            "capabilities (SYS_ADMIN)",
            "use environment: lxc or netns",
        )
    return None


def idle_problem(idle: Idle, io: Io, kind: PortKind) -> Refusal | None:
    """Return why an application cannot wait in this way on a port of this kind; None if it can."""
    used = resolve_io(io, kind)
    if idle is not Idle.BLOCK or IO_ROWS[used].blocks:
        return None
    able = ", ".join(name for name, row in IO_ROWS.items() if row.blocks)
    return Refusal(
        f"idle block: io {used} on a {kind} port has no call that sleeps until a frame arrives",
        f"use another idle strategy, or one of io: {able}",
    )


def place_problem(switch: str, environment: str, scenario: Scenario) -> Refusal | None:
    """Return why such nodes cannot be connected without a switch; None if they can."""
    if switch != WIRE or not traits_of(environment).guests or scenario.kind == "p2p":
        return None
    return Refusal(
        f"{switch} in {environment}: two virtual machines cannot be connected without a switch",
        "leave it out, or use scenario: p2p",
    )


def wire_end_problem(
    capabilities: Capabilities, scenario: Scenario, kind: PortKind
) -> Refusal | None:
    """Return why a scenario's testers cannot have their ports; None if they can, or if there are no
    testers."""
    if NodePlace.WIRE not in PLACES[scenario.kind] or wire_kind(kind) in capabilities.port_kinds:
        return None
    return Refusal(f"testers cannot have {kind} ports", "use pairs or v2v")


def environment_refusals(
    sweep: Sweep, switch: str, capabilities: Capabilities, environment: str, kind: PortKind, io: Io
) -> Iterator[Refusal]:
    """Yield the reasons why the sweep cannot run in this environment with this port kind and
    I/O."""
    waits = [idle_problem(idle, io, kind) for idle in sweep.idle]
    yield from filter(None, [io_problem(io, environment), *waits])
    if set(sweep.vcpus) != {None} and not traits_of(environment).guests:
        guests = names_of(lambda traits: traits.guests)
        yield Refusal(
            f"vcpus: {environment} has no virtual CPUs",
            f"leave it out, or use environment: {guests}",
        )
    for scenario in sweep.scenario:
        if not scenario.is_known:
            continue
        yield from filter(
            None,
            [
                place_problem(switch, environment, scenario),
                wire_end_problem(capabilities, scenario, kind),
            ],
        )
        if scenario.chain:
            yield from filter(None, [vnf_problem(vnf, kind, environment) for vnf in sweep.vnf])
