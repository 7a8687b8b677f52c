"""Which layouts cannot be made: switch, scenario, environment and port kind together.

Pure: the same answers refuse a campaign before anything is started and fill the table of
docs/combinations.md. Each refusal has a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from switchmark.campaign.port_kinds import DEVICES
from switchmark.campaign.rules.between import between_refusals
from switchmark.engine.arguments import resolve_io
from switchmark.environment.registry import names_of, traits_of
from switchmark.errors import Refusal
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

MOST_NAMED = 8  # wire ends, in a message


def wire_problem(switch: str, found: Scenario) -> Refusal | None:
    """Return why there is no such scenario without a switch; None when there is."""
    if switch != WIRE:
        return None
    if found.chain:
        return Refusal(f"{switch} is one wire, and cannot join a chain of VNFs", "use p2p or pairs")
    if len(set(PLACES[found.kind])) > 1:
        return Refusal(
            f"{switch} joins two ends of the same kind, and {found.kind} has two kinds",
            "use p2p or v2v",
        )
    return None


def vnf_problem(vnf: str, kind: PortKind, environment: str) -> Refusal | None:
    """Return why a VNF of this kind cannot have such ports there; None if it can."""
    devices = kind in DEVICES or traits_of(environment).guests
    if vnf == "l2fwd" and resolve_io(Io.AUTO, kind) is not Io.DPDK:
        return Refusal(
            f"vnf l2fwd holds frames in DPDK's own buffers, and {kind} has none",
            "use vnf: forwarder, or a switch with vhost-user ports",
        )
    if vnf in ("bridge", "pcap") and not devices:
        return Refusal(
            f"vnf {vnf} needs network devices, and {kind} is a socket",
            "use vnf: forwarder, or a switch with veth ports",
        )
    return None


def mode_problem(switch: str, can: Capabilities, vnf: str) -> Refusal | None:
    """Return why this switch cannot carry a chain of such VNFs; None if it can."""
    if rewrites(vnf) or ConnectMode.CROSS_CONNECT in can.connect_modes:
        return None
    return Refusal(
        f"vnf {vnf} leaves MAC addresses as they are, so only connect_mode cross-connect can "
        f"carry a chain of them, which {switch} does not have",
        "use vnf: forwarder, l2fwd or pcap",
    )


def network_problem(switch: str, can: Capabilities, found: Scenario) -> Refusal | None:
    """Return why a container network cannot carry this scenario; None if it can."""
    if can.is_network and found.chain:
        return Refusal(
            f"{switch} attaches applications and no VNFs, which forward frames",
            "use a scenario without a chain",
        )
    return None


def ports_problem(switch: str, can: Capabilities, found: Scenario, pairs: int) -> Refusal | None:
    """Return why the switch has too few ports; None when it has enough."""
    needed = ports_of(pairs, found.chain)
    if can.max_ports is None or needed <= can.max_ports:
        return None
    most = can.max_ports // ports_of(1, found.chain)
    text = f"{switch} takes at most {can.max_ports} ports, and "
    if found.chain:
        return Refusal(
            f"{text}{pairs} x {found.canonical} needs {needed}", "use a shorter chain or fewer"
        )
    return Refusal(f"{text}{pairs} pairs need {needed}", f"use pairs up to {most}")


def pairs_problem(found: Scenario, pairs: int) -> Refusal | None:
    """Return why there are too few addresses, or names of VNFs, for so many paths; None when there
    are enough."""
    if fits(pairs, found.chain):
        return None
    if not found.chain:
        return Refusal(
            f"there are addresses for {MOST_PAIRS} pairs, not for {pairs}", "use pairs up to that"
        )
    return Refusal(
        f"{found.canonical}: {pairs} chains of {found.chain} VNFs make "
        f"{ports_of(pairs, found.chain)} ports",
        f"use at most {MOST_CHAINS} chains, and {MOST_PORTS} ports",
    )


def nodes_have_devices(nics: Nics, can: Capabilities) -> bool:
    """Return True if the nodes beside real ports have network devices, as the real ports do: where
    the switch takes devices, unless all the testers' ports are DPDK's and the switch has
    sockets."""
    if not nics or PortKind.VETH not in can.port_kinds:
        return False
    all_pci = all(is_pci(nic.tester) for nic in nics.cables)
    return not (all_pci and PortKind.VHOST_USER in can.port_kinds)


def _with_end(end: CableEnd) -> str:
    return contenders_that(lambda can: end in can.cable_ends)


def nics_refusals(sweep: Sweep, switch: str, can: Capabilities) -> Iterator[Refusal]:
    """Return why real ports cannot take the place of wire ends in this sweep."""
    named = [cable for nics in sweep.nics for cable in nics.cables]
    if not named:
        return
    if switch == WIRE:
        yield Refusal(
            "direct joins the applications themselves, without ports of the host", "leave nics out"
        )
        return
    if not can.cable_ends or can.is_nic:
        yield Refusal(
            f"{switch} takes no port of the host's own",
            f"leave nics out, or use {_with_end(CableEnd.INTERFACE)}",
        )
    if "remote" in sweep.location:
        yield Refusal("nics work on one host only", "leave them or location: remote out")
    if any(sends_datagrams(io) for io in sweep.io):
        yield Refusal(
            "io udp needs an address of ours at the port, and nics keep theirs", "use io: raw"
        )
    own = [nic.switch for nic in named if is_pci(nic.switch)]
    if own and CableEnd.PCI not in can.cable_ends:
        yield Refusal(
            f"{switch} drives no PCI port itself ({own[0]})",
            f"name a network device, or use {_with_end(CableEnd.PCI)}",
        )
    by_socket = any(nodes_have_devices(nics, can) for nics in sweep.nics)
    if by_socket and set(sweep.io) != {Io.DPDK} and any(is_pci(nic.tester) for nic in named):
        yield Refusal("a tester's PCI port is DPDK's", "write io: dpdk, or name a network device")
    for nics, scenario, count, split in product(
        sweep.nics, sweep.scenario, sweep.pairs, sweep.split
    ):
        if not scenario.is_known or not nics:
            continue
        ends = wire_ends(sweep.dimension, scenario.paths or count, PLACES[scenario.kind], split)
        number = len(nics.cables)
        if len(ends) != number:
            yield Refusal(
                f"nics: {nics} names {number} of TESTER/SWITCH, and there are {len(ends)} wire "
                f"ends ({_some(ends) or f'none in {scenario}'})",
                "name one for each",
            )


def _some(names: Sequence[str]) -> str:
    """The names in a message; of many, the first ones."""
    return ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")


def scenario_refusals(sweep: Sweep, switch: str, can: Capabilities) -> Iterator[Refusal]:
    """Return why the switch cannot carry the sweep's scenarios, in any environment."""
    if True in sweep.bidirectional and sweep.dimension is Dimension.LATENCY:
        yield Refusal(
            "round trips go both ways anyway",
            "leave bidirectional out of latency trials, or time "
            "each way under traffic both ways with method: one-way",
        )
    if "remote" in sweep.location:
        yield from between_refusals(sweep, switch, can)
    yield from nics_refusals(sweep, switch, can)
    for found in sweep.scenario:
        if not found.is_known:
            yield Refusal(f"there is no scenario {found}", "`switchmark list scenarios` names them")
            continue
        if found.paths is not None and sweep.pairs not in ((1,), (found.paths,)):
            yield Refusal(f"scenario {found} says how many paths there are", "leave pairs out")
        pairs = found.paths or max(sweep.pairs)
        yield from filter(None, [wire_problem(switch, found),
                                 network_problem(switch, can, found),
                                 ports_problem(switch, can, found, pairs),
                                 pairs_problem(found, pairs)])  # fmt: skip
        if found.chain:
            yield from _chain_refusals(sweep, switch, can)
        for split in sweep.split:
            if split != "none":
                yield from _split_refusals(sweep, split, switch, can, found)


def _split_refusals(
    sweep: Sweep, split: str, switch: str, can: Capabilities, found: Scenario
) -> Iterator[Refusal]:
    """Return why one stream over several chains cannot be combined with the rest of the sweep."""
    told = f"split: {split}"
    if not found.chain or (found.paths or min(sweep.pairs)) < 2:
        yield Refusal(
            f"{told} needs several chains with one sender", "use scenario: chains-MxN, M from 2 on"
        )
    if not can.splits:
        able = contenders_that(lambda can: can.splits)
        yield Refusal(
            f"{switch} has no rules that could deal frames out", f"use {able}, or no split"
        )
    if set(sweep.connect_mode) != {ConnectMode.CROSS_CONNECT}:
        yield Refusal(
            f"{told} is made of rules from port to port", "write connect_mode: cross-connect"
        )
    if sweep.dimension is not Dimension.THROUGHPUT or True in sweep.bidirectional:
        yield Refusal(
            f"{told} needs traffic one way", "use dimension: throughput, bidirectional: false"
        )
    if split == "src-mac" and sweep.flows != (ONE_FLOW,):
        yield Refusal(f"{told} has one source address for each chain", "leave flows out")
    if split == "flow" and ONE_FLOW in sweep.flows:
        yield Refusal(
            f"{told} sends one flow through one chain", "use e.g. flows: 1k:src-ip+src-port"
        )


def cable_problem(switch: str, can: Capabilities, end: str) -> Refusal | None:
    """Return why the switch cannot take this end of a cable, an interface or a PCI address, as a
    port; None if it can."""
    if end_of(end) in can.cable_ends:
        return None
    return Refusal(
        f"{switch} takes interfaces of the kernel's and not NICs that are apart from it",
        "give the NIC back to its kernel driver and name its interface, or use a switch on DPDK",
    )


def _chain_refusals(sweep: Sweep, switch: str, can: Capabilities) -> Iterator[Refusal]:
    for vnf, mode in product(sweep.vnf, sweep.connect_mode):
        if (problem := mode_problem(switch, can, vnf)) is not None:
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
            f"io {io} needs an IP stack for each end, and environment {environment} has the host's "
            "one for all",
            "use io: raw or auto, or environment: netns",
        )
    if not traits.loads_programs and io is not Io.AUTO and "bpf" in IO_ROWS[io].container:
        return Refusal(
            f"io {io} loads a program into the kernel, for which {environment} gives no capability "
            "short of all (SYS_ADMIN)",
            "use environment: lxc or netns",
        )
    return None


def idle_problem(idle: Idle, io: Io, kind: PortKind) -> Refusal | None:
    """Return why an application cannot wait so on a port of this kind; None if it can."""
    used = resolve_io(io, kind)
    if idle is not Idle.BLOCK or IO_ROWS[used].blocks:
        return None
    able = ", ".join(name for name, row in IO_ROWS.items() if row.blocks)
    return Refusal(
        f"idle block: io {used} on a {kind} port has no call that sleeps until a frame comes",
        f"use another idle strategy, or one of io: {able}",
    )


def place_problem(switch: str, environment: str, found: Scenario) -> Refusal | None:
    """Return why such nodes cannot be joined by a wire without a switch; None if they can."""
    if switch != WIRE or not traits_of(environment).guests or found.kind == "p2p":
        return None
    return Refusal(
        f"{switch} in {environment}: two virtual machines are not joined without a switch",
        "leave it out, or use scenario: p2p",
    )


def wire_end_problem(can: Capabilities, found: Scenario, kind: PortKind) -> Refusal | None:
    """Return why a scenario's wire ends cannot have their ports; None when they can, or when there
    are none."""
    if NodePlace.WIRE not in PLACES[found.kind] or wire_kind(kind) in can.port_kinds:
        return None
    return Refusal(f"wire ends cannot have {kind} ports", "use pairs or v2v")


def environment_refusals(
    sweep: Sweep, switch: str, can: Capabilities, environment: str, kind: PortKind, io: Io
) -> Iterator[Refusal]:
    """Return why the sweep cannot run in this environment with ports of this kind and this I/O."""
    waits = [idle_problem(idle, io, kind) for idle in sweep.idle]
    yield from filter(None, [io_problem(io, environment), *waits])
    if set(sweep.vcpus) != {None} and not traits_of(environment).guests:
        guests = names_of(lambda traits: traits.guests)
        yield Refusal(
            f"vcpus: {environment} has no virtual CPUs",
            f"leave it out, or use environment: {guests}",
        )
    for found in sweep.scenario:
        if not found.is_known:
            continue
        yield from filter(
            None, [place_problem(switch, environment, found), wire_end_problem(can, found, kind)]
        )
        if found.chain:
            yield from filter(None, [vnf_problem(vnf, kind, environment) for vnf in sweep.vnf])
