"""The path of an application's connections: offloads of its devices, congestion control, and the
kernel's counters at both ends."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from switchmark.environment.support.base import Node
from switchmark.errors import TrialFailed, UsageError
from switchmark.host.host import Session
from switchmark.host.kernel.device_counters import EndCounters, all_device_counters, end_counters
from switchmark.host.kernel.device_settings import (
    disable_offloads,
    enable_offloads,
    offloads_of,
)
from switchmark.host.kernel.namespaces import inode_of, inside
from switchmark.host.network.counted import ENDS
from switchmark.host.process_output import parsing
from switchmark.instrument.support.udp import TCP_PORT
from switchmark.model.trial import Trial
from switchmark.switch.existing import Existing, FarEnd
from switchmark.switch.support.base import HasNetwork, Switch


@dataclass(frozen=True, slots=True)
class PathDevice:
    """A network device on the path: its label in records, its namespace, its name."""

    label: str
    netns: str | None
    device: str
    far: FarEnd | None = None  # the pod on another node that has the device; None: it is here


def end_device(node: Node, far: FarEnd | None = None) -> str:
    """Return the device of a node that an application uses; `far`: the node is in that pod. Raises
    UsageError if it has none."""
    device = node.spec.port.device_inside
    if device is None or (node.netns is None and far is None):
        raise UsageError(
            f"node {node.spec.name}: an application needs a device in a network namespace"
        )
    return device


def far_ends(switch: Switch) -> tuple[FarEnd | None, FarEnd | None]:
    """Return the pods on another node in which client and server are; None: the end is here."""
    return None, switch.far_end if isinstance(switch, Existing) else None


def path_devices(nodes: Iterable[Node], switch: Switch) -> list[PathDevice]:
    """Return the devices of both ends and the ports of the switch that are devices."""
    found = []
    for node, far in zip(nodes, far_ends(switch), strict=True):
        port, device = node.spec.port, end_device(node, far)
        found.append(PathDevice(f"{node.spec.name}/{device}", node.netns, device, far))
        parent = port.made_port.macvlan_on if port.made_port is not None else None
        if parent is not None:
            found.append(PathDevice(f"switch/{parent.device}", parent.netns, parent.device))
        elif port.device_switch_side is not None:
            at = _where(port.device_switch_side, port.switch_netns, switch)
            label = f"switch/port of {node.spec.name}"
            found += [PathDevice(label, netns, port.device_switch_side) for netns in at]
    if switch.capabilities.is_network and isinstance(switch, HasNetwork):
        # The two lists may name the same namespace by different paths.
        known = {(inode_of(each.netns), each.device) for each in found if each.far is None}
        found += [
            PathDevice(f"network/{counted.device}", counted.namespace, counted.device)
            for counted in switch.network().devices
            # The run of each pair sets the devices of its ends.
            if counted.read is None  # the device of the far end is in the list already
            and (inode_of(counted.namespace), counted.device) not in known
            and not counted.group.startswith(ENDS)
        ]
    return list(dict.fromkeys(found))


def _where(device: str, made_in: str | None, switch: Switch) -> Iterator[str | None]:
    """Yield the namespace of a switch's port: where it was made, or the switch's own."""
    own_namespace = getattr(getattr(switch, "namespace", None), "name", None)
    for netns in dict.fromkeys((made_in, own_namespace, None)):
        with suppress(OSError):
            if device in all_device_counters(netns):
                yield netns
                return


def set_offloads(trial: Trial, switch: Switch, devices: Sequence[PathDevice]) -> str:
    """Set the offloads of these devices as the trial asks. Return why they are not all as asked;
    empty if they are. The bench has made the devices, with all of `OFFLOADS_OFF` off."""
    if switch.capabilities.foreign:
        return f"{switch.name} is a network of the user, whose devices keep their offloads"
    if trial.offload == "off":
        for each in devices:
            inside(each.netns, partial(disable_offloads, each.device))
        return ""
    if not switch.capabilities.keeps_offloads:
        return (
            f"transmit checksums and segmentation stay off, because {switch.name} reads frames "
            "from its devices: a checksum that a device would fill in later never arrives, and TCP "
            "drops the segment"
        )
    for each in devices:
        inside(each.netns, partial(enable_offloads, each.device))
    return ""


def offloads_on(devices: Iterable[PathDevice]) -> dict[str, dict[str, bool]]:
    """Return the offloads of each device, as the kernel reports them."""
    return {
        each.label: inside(each.netns, partial(offloads_of, each.device))
        if each.far is None
        else each.far.offloads(each.device)
        for each in devices
    }


def set_congestion_control(session: Session, name: str, nodes: Iterable[Node]) -> None:
    """Set the congestion control of new connections between the nodes, by their route. A namespace
    may not choose every one by its sysctl. Raises TrialFailed if the kernel lacks it."""
    for node in nodes:
        port, device = node.spec.port, end_device(node)
        ip, peer = (text.partition("/")[0] for text in (port.ip, port.peer_ip))
        via = _gateway(session, str(node.netns), peer)
        route = ["route", "replace", f"{peer}/32", *(["via", via] if via else []), "dev", device]
        done = session.host.run(
            ["ip", "-n", str(node.netns), *route, "src", ip, "congctl", name], check=False
        )
        if done.exit_code != 0:
            reason = " ".join(done.stderr.split())[:160] or "ip gave no reason"
            raise TrialFailed(f"congestion_control {name}: {reason}")


def _gateway(session: Session, netns: str, address: str) -> str:
    """Return the router on the way to an address; empty if there is none."""
    done = session.host.run(["ip", "-n", netns, "-j", "route", "get", address], check=False)
    with parsing("ip -j route"):
        (route,) = json.loads(done.stdout or "[{}]")
        return str(ipaddress.ip_address(route["gateway"])) if "gateway" in route else ""


def seen_congestion_control(
    session: Session, node: Node, known: Sequence[str], *, is_client: bool
) -> str:
    """Return the congestion control of the open connections between the client and the server, as
    this end has it; empty if none is open. Other connections of the namespace do not count, also if
    they have the same port at their other end."""
    port = node.spec.port
    if is_client:
        end, ip, number = "dst", port.peer_ip, port.peer_tcp_port
    else:
        end, ip, number = "src", port.ip, port.tcp_port
    address = f"{ip.partition('/')[0]}:{number or TCP_PORT}"
    shown = session.host.run(["ss", "-N", str(node.netns), "-tinH", end, address], check=False)
    if shown.exit_code != 0:
        return ""
    found = {word for line in shown.stdout.splitlines() for word in line.split() if word in known}
    return "+".join(sorted(found))


def read_end(node: Node, far: FarEnd | None) -> EndCounters:
    """Return the counters of an end now; `far`: the node is in that pod."""
    device = end_device(node, far)
    return end_counters(node.netns, device) if far is None else far.end_counters(device)
