"""`switchmark path`: explain the network path between two endpoints that run, without changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated, Any

import typer

from switchmark.cli.options import AsJson
from switchmark.cli.output import note, print_json, print_line, print_table
from switchmark.errors import UnavailableError, UsageError
from switchmark.host.network.entered import OpenEndpoint, opened
from switchmark.host.network.guard_rails import Verdict, judge_path
from switchmark.host.network.path import NetworkPath, PathReader, Trace
from switchmark.host.network.state import NamespaceState
from switchmark.model.endpoints import Endpoint, EndpointKind, read_endpoint

EPILOG = """
Examples:
  switchmark path docker:web docker:db      two containers of Docker
  switchmark path netns:a pid:4711          a namespace and a process
  switchmark path docker:web address:10.0.0.1:8080   a published port
  switchmark path lxc:a dev:br0 --json      for programs

Kinds of endpoints:
  netns:NAME  pid:N  docker:NAME  podman:NAME  lxc:NAME  pod:NAMESPACE/NAME
  dev:NAME (a device of this host)  address:IP[:PORT] (only as B)

Exit codes:
  0    the path is shown
  2    wrong input, for example an endpoint without the form KIND:NAME
  3    an endpoint does not run, or this user cannot see it, or both endpoints
       are in one network namespace
"""


def command(
    a: Annotated[str, typer.Argument(metavar="A", help="The endpoint that sends.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The endpoint that receives.")],
    json: AsJson = False,
) -> int:
    """Show the network path between two running endpoints: its devices and their peers, bridges,
    routes, firewall rules, MTU, offloads and settings.

    The command only reads from the kernel and from Open vSwitch. It sends and changes nothing. If
    `switchmark run` would refuse to send traffic along the path, it also prints the reason
    (docs/existing.md, "Guard rails").
    """
    first, second = (_endpoint(text, name) for text, name in ((a, "A"), (b, "B")))
    if first.kind is EndpointKind.ADDRESS:
        raise UsageError(f"A: {first}: an address cannot be entered", remedy="name it as B")
    if first == second:
        raise UsageError(f"A and B are both {first}", remedy="name two endpoints")
    with ExitStack() as stack:
        is_address = second.kind is EndpointKind.ADDRESS
        ends = stack.enter_context(opened([first] if is_address else [first, second]))
        if len(ends) > 1 and ends[0].handle.inode == ends[1].handle.inode:
            raise UnavailableError(
                f"{first} and {second} are in one network namespace: packets between them stay on "
                "its loopback device"
            )
        reader = stack.enter_context(PathReader(ends))
        host = reader.state(reader.host)
        path = reader.read(second.address if is_address else None)
        verdict = judge_path(path, host, ())
        document = as_document(path, ends, verdict)
    if json:
        print_json(document)
    else:
        _print(path, ends, verdict)
    return 0


def _endpoint(text: str, name: str) -> Endpoint:
    try:
        return read_endpoint(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def as_document(path: NetworkPath, ends: list[OpenEndpoint], verdict: Verdict) -> dict[str, Any]:
    """The path as JSON."""
    return {
        "ends": [
            {"endpoint": str(end.endpoint), "namespace": end.handle.inode,
             "pid": end.holder.identity.pid if end.holder else None}
            for end in ends
        ],
        "source_address": path.source_address,
        "target_address": path.target_address,
        "mtu": path.mtu_bytes(),
        "forth": _trace(path.forth),
        "back": _trace(path.back),
        "namespaces": [_namespace(state, path) for state in path.states.values()],
        "refused": [str(refusal) for refusal in verdict.refusals],
        "unseen": list(path.unseen),
    }  # fmt: skip


def _trace(trace: Trace) -> dict[str, Any]:
    return {
        "stations": [asdict(station) for station in trace.stations],
        "arrives": trace.arrives,
        "end": trace.end,
        "routers": trace.routers,
        "translated": trace.translated,
    }


def _namespace(state: NamespaceState, path: NetworkPath) -> dict[str, Any]:
    names = [device for inode, device in path.devices() if inode == state.inode]
    return {
        "label": state.label,
        "namespace": state.inode,
        "devices": [asdict(state.links[name]) for name in names if name in state.links],
        "bridges": {
            name: [port.name for port in state.ports_of(name)]
            for name in names
            if name in state.links and state.links[name].kind == "bridge"
        },
        "default_devices": list(state.default_devices),
        "gateways": list(state.gateways),
        "firewall": asdict(state.firewall),
        "conntrack": state.conntrack_count,
        "settings": dict(state.settings),
    }


def _print(path: NetworkPath, ends: list[OpenEndpoint], verdict: Verdict) -> None:
    print_line(f"{ends[0].endpoint} ({path.source_address}) to {path.target_address}"
               + (f" ({ends[1].endpoint})" if len(ends) > 1 else ""))  # fmt: skip
    rows = [list(row) for row in _rows(path, path.forth)]
    print_table(
        ["namespace", "device", "kind", "MTU", "queue", "offloads", "packets"], rows, title="path"
    )
    if not path.forth.arrives:
        note(f"the path ends here: {path.forth.end}")
    if len(ends) > 1 and not _is_mirror(path):
        back = [list(row) for row in _rows(path, path.back)]
        print_table(
            ["namespace", "device", "kind", "MTU", "queue", "offloads", "packets"], back,
            title="way back",
        )  # fmt: skip
        if not path.back.arrives:
            note(f"the way back ends here: {path.back.end}")
    print_line(f"routers: {path.forth.routers}; smallest MTU: {path.mtu_bytes() or 'unknown'}")
    if path.forth.translated:
        print_line("the destination address is translated on the way (DNAT)")
    for state in path.states.values():
        for line in _about(state, path):
            print_line(line)
    for text in path.unseen:
        note(f"not visible: {text}")
    for refusal in verdict.refusals:
        print_line(f"refused for traffic: {refusal}")


def _is_mirror(path: NetworkPath) -> bool:
    forth = [(station.namespace, station.device) for station in path.forth.stations]
    back = [(station.namespace, station.device) for station in path.back.stations]
    return forth == back[::-1]


def _rows(path: NetworkPath, trace: Trace) -> Iterator[tuple[str, ...]]:
    for station in trace.stations:
        state, link = path.states[station.namespace], path.link(station.namespace, station.device)
        packets = f"{station.action}{f' ({station.note})' if station.note else ''}"
        if link is None:
            yield state.label, station.device, "", "", "", "", packets
            continue
        offloads = [short for name, short in _SHORT.items() if link.offloads.get(name)]
        kind = link.kind or ("loopback" if link.loopback else "hardware")
        if link.xdp:
            kind += ", XDP program"
        yield (
            state.label, link.name, kind, str(link.mtu_bytes), link.qdisc,
            " ".join(offloads) or "none", packets,
        )  # fmt: skip


_SHORT = {
    "tx-checksumming": "tx-csum",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
}


def _about(state: NamespaceState, path: NetworkPath) -> Iterator[str]:
    firewall, settings = state.firewall, state.settings
    rules = (
        f"{firewall.rules} firewall rules ({firewall.nat_rules} NAT) in "
        f"{len(firewall.base_chains)} hooks"
        if firewall.program
        else "firewall rules not readable"
    )
    tracked = "no conntrack"
    if state.conntrack_count is not None:
        most = settings.get("netfilter/nf_conntrack_max", "?")
        tracked = f"conntrack {state.conntrack_count} of {most}"
    gateways = f"; gateway {', '.join(state.gateways)}" if state.gateways else ""
    yield f"{state.label}: {rules}; {tracked}{gateways}"
    for chain in firewall.base_chains:
        if "policy drop" in chain:
            yield f"{state.label}: {chain}"
    names = [device for inode, device in path.devices() if inode == state.inode]
    bridges = [name for name in names if name in state.links and state.links[name].kind == "bridge"]
    for name in bridges:
        ports = ", ".join(port.name for port in state.ports_of(name))
        yield f"{state.label}: bridge {name} has the ports {ports or 'none'}"
    if bridges and settings.get("bridge/bridge-nf-call-iptables") == "1" and firewall.rules:
        yield (
            f"{state.label}: bridge-nf-call-iptables is 1, so bridged IPv4 packets also pass the "
            "IP firewall"
        )
