"""Impossible combinations between two hosts, each with a switch, and one cable between them.

`between_problems` judges one combination, for campaigns and for the table of docs/combinations.md.
Methods, VNFs and splits have no column in that table, so only campaigns check them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from switchmark.campaign.rules.workload import runs
from switchmark.environment.registry import traits_of
from switchmark.errors import Refusal
from switchmark.instrument.registry import abilities_for
from switchmark.method.registry import METHODS
from switchmark.model import options
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import OWN_ENGINE, PLAIN, WIRE
from switchmark.model.endpoints import EndpointKind
from switchmark.model.io import Io, sends_datagrams
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.workload import FRAMES
from switchmark.workload.registry import WORKLOADS


def between_refusals(sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
    """Yield the reasons why a campaign between hosts cannot run, each once."""
    if capabilities.foreign:
        yield from _pod_refusals(sweep, switch)
        return
    applications = [name for name in sweep.workload if name != FRAMES]
    if applications:
        yield Refusal(
            f"workload {applications[0]} works between two hosts only to a pod on another node, "
            "because the bench reads counters and offloads of the server's device only on this "
            "host or in a pod",
            "use switch: existing, or leave location: remote out",
            key="workload",
        )
    pairs = max([*sweep.pairs, *(scenario.paths or 1 for scenario in sweep.scenario)])
    modes = [one or capabilities.connect_modes[0] for one in sweep.connect_mode]
    problems = [
        problem
        for mode, environment, kind, io in product(
            modes, sweep.environment, sweep.port_kind, sweep.io
        )
        for problem in between_problems(switch, capabilities, mode, environment, kind, io, pairs)
    ]
    yield from dict.fromkeys(problems)
    for each in sweep.switch_options:
        if (refusal := options.between_refusal(switch, capabilities, each.chosen)) is not None:
            yield refusal
    for method in sweep.method:
        if method != PLAIN and METHODS[method].one_host:
            yield Refusal(f"method {method} works on one host only: {METHODS[method].one_host}")
    if set(sweep.split) != {"none"}:
        yield Refusal("split works at one switch only", "leave location: remote out")
    if any(place != "host" for place in sweep.switch_environment):
        yield Refusal(
            "between hosts, the switches run on the hosts", "use switch_environment: host"
        )
    shared = [name for name in sweep.environment if not traits_of(name).own_network]
    if shared and "bridge" in sweep.vnf:
        yield Refusal(
            f"vnf bridge in environment {shared[0]} works on one host only",
            "use environment: netns",
        )
    if any(vnf.startswith("/") for vnf in sweep.vnf):
        yield Refusal(
            "a user's VNF works on one host only", "use vnf: forwarder, l2fwd, bridge or pcap"
        )


def _pod_refusals(sweep: Sweep, switch: str) -> Iterator[Refusal]:
    """The reasons why a path to a pod on another node cannot be measured."""
    for endpoints in sweep.endpoints:
        if not endpoints or endpoints.ends[1].kind is not EndpointKind.POD:
            yield Refusal(
                f"{switch} between two hosts leads to a pod on another node",
                "write endpoints: A+pod:NAMESPACE/NAME, or leave location: remote out",
                key="endpoints",
            )
        elif endpoints.through is not None:
            yield Refusal(
                "an address between the endpoints works on one host only",
                "leave the address out",
                key="endpoints",
            )
    yield from _pod_workload_refusals(sweep)
    if any(sweep.abort_if):
        yield Refusal("abort_if works on one host only", "leave abort_if out", key="abort_if")
    for method in sweep.method:
        if method != PLAIN and METHODS[method].one_host:
            yield Refusal(f"method {method} works on one host only: {METHODS[method].one_host}")


def _pod_workload_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """The reasons why an application cannot run between two nodes. Whether the pod has the program
    of the server is checked when the pod is reached."""
    for generator, workload in runs(sweep):
        abilities = abilities_for(generator, workload)
        if abilities is None or abilities.paces:
            continue
        if WORKLOADS[workload].generator == OWN_ENGINE:
            key, remedy = "generator", f"use generator: {OWN_ENGINE}"
        else:
            others = (name for name in WORKLOADS if WORKLOADS[name].generator == OWN_ENGINE)
            key, remedy = "workload", "use workload: " + ", ".join(others)
        yield Refusal(
            f"{generator} sends as fast as it can, and the rate to another node is capped",
            remedy,
            key=key,
        )


def between_problems(
    switch: str,
    capabilities: Capabilities,
    mode: ConnectMode,
    environment: str,
    kind: PortKind | None,
    io: Io,
    pairs: int,
) -> Iterator[Refusal]:
    """Yield the reasons why one combination cannot run. `kind` None: any port kind."""
    traits = traits_of(environment)
    if switch == WIRE:
        if (problem := bare_cable_problem(pairs, io)) is not None:
            yield problem.about("direct between hosts: ")
        if kind not in (None, PortKind.VETH):
            yield Refusal(
                "between hosts, direct uses the cable as its port", f"leave port_kind {kind} out"
            )
        if not traits.own_network:
            yield Refusal(
                "between hosts, direct moves the cable into a namespace", "use environment: netns"
            )
    elif not capabilities.cable_ends:
        yield Refusal(
            f"{switch} cannot use the cable between two hosts: {capabilities.uncabled}",
            "leave location: remote out, or use another switch",
        )
    elif mode is ConnectMode.CROSS_CONNECT and pairs > 1:
        yield Refusal(
            "several pairs share the one cable between two hosts, so cross-connect can carry "
            "one pair only",
            "use connect_mode: learning, or one pair",
        )
    elif mode is ConnectMode.STATIC_MAC:
        yield Refusal(
            f"connect_mode {mode} has one address for each port, and there are many behind the "
            "cable between hosts",
            "use learning",
        )


def ports_between(switch: str, kinds: Sequence[PortKind]) -> list[PortKind]:
    """Return the port kinds that nodes can have between hosts, out of `kinds`. Without a switch the
    port is an end of the cable."""
    return [PortKind.VETH] if switch == WIRE else list(kinds)


def bare_cable_problem(pairs: int, io: Io) -> Refusal | None:
    """Return why the cable between two hosts cannot connect these pairs; None if it can."""
    if pairs > 1:
        return Refusal(f"one cable connects one pair, not {pairs}", "use pairs: 1")
    if sends_datagrams(io):
        return Refusal(
            f"io {io} reaches only the address of the interface, which belongs to the host and "
            "does not change",
            "use io: raw or auto",
        )
    return None
