"""Guard rails: through which networks of the user the bench may send traffic, and how much.

Without its name in `--yes-this-network`, no path may leave this machine: not by the device of the
host's default route, not by a physical port or a tunnel, and not by a bridge that has one of these
as a port. The gateway address of a bridge and the default route of a container do not lead to a
refusal. With the name the load is capped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from switchmark.errors import Refusal
from switchmark.host.network.path import UNKNOWN_WAY, NetworkPath
from switchmark.host.network.state import BONDS, Link, NamespaceState

OPTION = "--yes-this-network"
NEVER = re.compile(r"lo|docker_gwbridge|wg.*|tailscale.*|tun.*")
CAP_PPS, CAP_BITS_PER_S, CAP_S = 1000, 10_000_000, 10.0
CONNTRACK_SHARE = 0.10  # share of the free entries
TIME_WAIT_S = 60
USUAL_PORTS = 28_232  # that the kernel uses for outgoing connections


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of the guard rails: refusals, and whether the path leaves the machine."""

    refusals: tuple[Refusal, ...]
    leaves: bool  # by a name that was permitted; the load is then capped
    names: tuple[str, ...] = ()  # that would have to be permitted


def judge_path(path: NetworkPath, host: NamespaceState, permitted: Collection[str]) -> Verdict:
    """Judge the path between two endpoints that exist."""
    problems: list[tuple[str, Refusal]] = []
    for inode, device in path.devices():
        state = path.states.get(inode)
        if state is None:
            continue
        is_host = inode == host.inode
        problems += judge_device(state, device, is_host=is_host)
    verdict = _verdict(problems, permitted)
    missing = []
    for trace in (path.forth, path.back):
        # A path that leaves the machine by a permitted device cannot be followed any further.
        is_lost = bool(trace.stations) or (trace is path.back and trace != UNKNOWN_WAY)
        if is_lost and not trace.arrives and not (verdict.leaves or problems):
            missing.append(Refusal(
                f"the path is not known to its end: {trace.end}",
                "`switchmark path A B` shows how far it can be followed",
            ))  # fmt: skip
    return Verdict((*verdict.refusals, *dict.fromkeys(missing)), verdict.leaves, verdict.names)


def judge_bridge(
    state: NamespaceState, bridge: str, permitted: Collection[str], ovs_ports: Sequence[str] = ()
) -> Verdict:
    """Judge a bridge to which the bench would attach ends; `ovs_ports`: the ports of one of Open
    vSwitch, which the kernel does not list as its ports."""
    problems = judge_device(state, bridge, is_host=True)
    outside = [port for port in ovs_ports if port in state.links and _leads_out(state.links[port])]
    if outside:
        problems.append((bridge, Refusal(
            f"bridge {bridge} leads out of this machine by its port {outside[0]}",
            f"{OPTION} {bridge} permits it, with a capped rate",
        )))  # fmt: skip
    return _verdict(problems, permitted)


_PERMITTED: set[str] = set()  # by the user, for this process


def permit(names: Collection[str]) -> None:
    """Permit traffic through these networks, devices and bridges."""
    _PERMITTED.update(names)


def permitted() -> frozenset[str]:
    """The names that the user has permitted."""
    return frozenset(_PERMITTED)


def judge_device(state: NamespaceState, device: str, *, is_host: bool) -> list[tuple[str, Refusal]]:
    """Return the refusals of traffic over a device, each with the name that permits it."""
    link = state.links.get(device)
    if link is None:
        return []
    if NEVER.fullmatch(device):
        return [("", Refusal(f"the path crosses {device}, which carries other networks of the host",
                             "choose another network"))]  # fmt: skip
    reasons = list(_reasons(state, link, is_host))
    return [
        (device, Refusal(reason, f"{OPTION} {device} permits it, with a capped rate"))
        for reason in reasons
    ]


def _reasons(state: NamespaceState, link: Link, is_host: bool) -> Iterator[str]:
    if is_host and link.name in state.default_devices:
        yield f"{link.name} is the device of this host's default route"
    elif link.is_physical:
        yield f"{link.name} is a physical port"
    elif link.is_tunnel:
        yield f"{link.name} is a {link.kind} tunnel to another host"
    elif link.kind == "bridge" or link.kind in BONDS:
        outside = [port.name for port in state.ports_of(link.name) if _leads_out(port)]
        if outside:
            yield f"{link.kind} {link.name} leads out of this machine by its port {outside[0]}"


def _leads_out(port: Link) -> bool:
    return port.is_physical or port.is_tunnel or port.kind in (*BONDS, "vlan")


def _verdict(problems: Collection[tuple[str, Refusal]], permitted: Collection[str]) -> Verdict:
    open_problems = dict.fromkeys(
        refusal for name, refusal in problems if not name or name not in permitted
    )
    return Verdict(
        tuple(open_problems),
        any(name in permitted for name, _ in problems if name),
        tuple(dict.fromkeys(name for name, _ in problems if name)),
    )


@dataclass(frozen=True, slots=True)
class PacketLoad:
    """The packets of a load in one direction."""

    per_s: int
    frame_bytes: float  # mean size with FCS


def cap_refusal(
    load: PacketLoad | None, duration_s: float, max_rate_pps: int | None
) -> Refusal | None:
    """Return the refusal of a load that is too high for a network that leaves the machine; `load`
    None: the highest rate."""
    if load is None:
        return Refusal("rate max is not sent through a network that leaves this machine",
                       "write a rate", key="rate")  # fmt: skip
    if max_rate_pps is not None:
        if load.per_s <= max_rate_pps:
            return None
        return Refusal(f"the load of {load.per_s} packets/s is above max_rate {max_rate_pps}",
                       "lower the rate", key="rate")  # fmt: skip
    bits = load.per_s * load.frame_bytes * 8
    if load.per_s > CAP_PPS or bits > CAP_BITS_PER_S or duration_s > CAP_S:
        return Refusal(
            f"{load.per_s} packets/s ({bits / 1e6:.3g} Mbit/s) for {duration_s:g} s: without "
            f"max_rate, a network that leaves this machine gets at most {CAP_PPS} packets/s, "
            f"{CAP_BITS_PER_S // 1_000_000} Mbit/s and {CAP_S:g} s",
            "write max_rate", key="rate",
        )  # fmt: skip
    return None


def connections_refusal(connections: int, ports: int, conntrack_free: int | None) -> Refusal | None:
    """Return the refusal of so many new connections; None if they may be made.

    Each keeps a port in TIME_WAIT for a minute, and an entry of conntrack for two."""
    if connections > ports:
        return Refusal(
            f"{connections} connections in {TIME_WAIT_S} s would use up the {ports} local ports, "
            "which stay in TIME_WAIT",
            f"use at most {ports // TIME_WAIT_S} connections/s",
        )
    if conntrack_free is not None and connections > CONNTRACK_SHARE * conntrack_free:
        return Refusal(
            f"{connections} connections would take more than {CONNTRACK_SHARE:.0%} of the "
            f"{conntrack_free} free entries of conntrack",
            "lower the rate, or the duration",
        )
    return None
