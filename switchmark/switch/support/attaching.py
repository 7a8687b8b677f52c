"""Attaches two ends of the bench to a network of the user, and removes them again.

The network must not notice it: a Linux bridge keeps its MAC address, its MTU and its other ports,
which are compared before, during and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import Refusal, TrialFailed, UnavailableError
from switchmark.host.host import Session
from switchmark.host.kernel import namespaces, netlink
from switchmark.host.kernel.netlink import VethEnd
from switchmark.host.network import ovs
from switchmark.host.network.handle import NamespaceHandle
from switchmark.host.network.probe import answering_mac
from switchmark.host.network.state import Link, NamespaceState
from switchmark.host.undo.entries import BridgePort, NetworkNamespace, OvsPort
from switchmark.model.ports import NetworkEnd
from switchmark.switch.support.private import Resources

DEVICE = "eth0"
SET_BY_A_USER = "3"  # NET_ADDR_SET: the kernel does not choose the address of the bridge anew
OUTSIDE_MAC = "fe:53:4d:{0}:{1:02x}"  # above every other address: the bridge keeps its own


@dataclass(frozen=True, slots=True)
class BridgeFacts:
    """The properties of a bridge that must stay as they are, and its ports without ours."""

    mac: str
    mtu_bytes: int
    ports: tuple[str, ...]

    @classmethod
    def of(cls, state: NamespaceState, bridge: str, ports: Sequence[str]) -> BridgeFacts:
        """The facts now. Raises UnavailableError without the bridge."""
        link = state.links.get(bridge)
        if link is None:
            raise UnavailableError(f"{bridge} is gone")
        others = sorted(port for port in ports if not port.startswith("sm"))
        return cls(link.mac, link.mtu_bytes, tuple(others))

    def difference(self, then: BridgeFacts, bridge: str) -> str:
        """Return how the bridge differs from `then`; empty if it does not."""
        for name, before, now in (
            ("MAC address", then.mac, self.mac),
            ("MTU", then.mtu_bytes, self.mtu_bytes),
        ):
            if before != now:
                return f"the {name} of {bridge} was {before} and is {now}"
        gone = sorted(set(then.ports) - set(self.ports))
        return f"{bridge} has lost its port {gone[0]}" if gone else ""


def outside_mac(session: str, number: int) -> str:
    """The address of the outer end of a port of the bench."""
    return OUTSIDE_MAC.format(":".join(session[at : at + 2] for at in (0, 2)), number)


def linux_bridge_refusal(state: NamespaceState, bridge: str, vlan: int | None) -> Refusal | None:
    """Return why two ends cannot be attached to a Linux bridge; None if they can."""
    link = state.links.get(bridge)
    if link is None:
        return Refusal(f"attach: there is no network device {bridge} here", "see `ip link`")
    if link.kind != "bridge":
        return Refusal(
            f"attach: {bridge} is not a bridge ({link.kind or 'hardware'})",
            "name a Linux bridge, ovs:BRIDGE or docker:NETWORK",
        )
    return _bridge_refusal(state, link, vlan)


def _bridge_refusal(state: NamespaceState, link: Link, vlan: int | None) -> Refusal | None:
    bridge = link.name
    if not link.up:
        return Refusal(f"attach: bridge {bridge} is down", f"ip link set {bridge} up")
    if str(link.info.get("stp_state", 0)) not in ("0", "None"):
        return Refusal(
            f"attach: bridge {bridge} has the spanning tree on, which blocks a new port for twice "
            "its forward delay and can change the tree",
            "choose a bridge without STP",
        )
    if vlan is not None and str(link.info.get("vlan_filtering", 0)) in ("0", "None"):
        return Refusal(
            f"attach_vlan: bridge {bridge} does not filter VLANs", "leave attach_vlan out"
        )
    if not state.ports_of(bridge) and _assigned(bridge) != SET_BY_A_USER:
        return Refusal(
            f"attach: {bridge} has no port and no fixed MAC address, so a port would change its "
            "MAC address",
            f"give it a fixed one: ip link set {bridge} address {link.mac}",
        )
    return None


def _assigned(bridge: str) -> str:
    with suppress(OSError):
        return Path("/sys/class/net", bridge, "addr_assign_type").read_text().strip()
    return ""


def ovs_refusal(bridge: str) -> Refusal | None:
    """Return why two ends cannot be attached to an Open vSwitch bridge; None if they can."""
    reason = ovs.missing()
    if reason is not None:
        return Refusal(f"attach: {reason}", "start it, or set OVS_RUNDIR to its folder")
    db = ovs.database()
    if ovs.vsctl(db, "br-exists", bridge) is None:
        return Refusal(f"attach: Open vSwitch has no bridge {bridge}", "see `ovs-vsctl list-br`")
    if ovs.nothing_passes(db, bridge):
        return Refusal(
            f"attach: {bridge} has fail mode secure and no flow, so nothing would pass",
            "add its flows first",
        )
    return None


class Attachment:
    """Two ends of the bench in a network of the user."""

    def __init__(
        self, session: Session, resources: Resources, read: Callable[[], NamespaceState]
    ) -> None:
        self.session = session
        self.resources = resources
        self._read = read  # the host's state, now
        self.handles: list[NamespaceHandle] = []

    def join_bridge(
        self, bridge: str, addresses: Sequence[str], vlan: int | None, *, is_ovs: bool
    ) -> list[NetworkEnd]:
        """Attach two ends with these addresses (with prefix length). Raises UnavailableError if an
        address is in use, TrialFailed if the bridge changes."""
        before = self._facts(bridge, is_ovs)
        # Runs after the ports have been removed.
        self.resources.at_end(lambda: self._check(before, bridge, is_ovs, "removing the ends"))
        names = [self._end(bridge, number, before.mtu_bytes, vlan, is_ovs) for number in (0, 1)]
        self._check(before, bridge, is_ovs, "attaching the ends")
        for address in addresses:
            ip = address.partition("/")[0]
            user = answering_mac(self.handles[0], DEVICE, ip)
            if user is not None:
                raise UnavailableError(
                    f"addresses: {ip} is in use in {bridge}: {user} answers",
                    remedy="choose addresses that nobody has",
                )
        ends = []
        for name, address in zip(names, addresses, strict=True):
            netlink.bring_up(VethEnd(DEVICE, netns=name), address=address)
            ends.append(NetworkEnd(name, DEVICE, _mac_in(name), address))
        return ends

    def _end(self, bridge: str, number: int, mtu_bytes: int, vlan: int | None, is_ovs: bool) -> str:
        session = self.session
        netns, port = f"sm{session.id}e{number}", f"sm{session.id}p{number}"
        self.resources.note(NetworkNamespace(netns))
        namespaces.create_namespace(netns)
        handle = NamespaceHandle.open(namespaces.NETNS_DIR / netns, f"end {number} of the bench")
        self.handles.append(handle)
        self.resources.at_end(handle.close)
        db = ovs.database()
        self.resources.note(OvsPort(port, bridge, db) if is_ovs else BridgePort(port, bridge))
        outside = VethEnd(port, outside_mac(session.id, number))
        netlink.create_veth(VethEnd(DEVICE, netns=netns), outside, mtu_bytes)
        netlink.bring_up(VethEnd(DEVICE, netns=netns))
        netlink.bring_up(outside)
        if is_ovs:
            ovs.add_port(db, bridge, port, session.id, vlan)
        else:
            self._plug(bridge, port, vlan)
        netlink.wait_passing(outside)
        return netns

    def _plug(self, bridge: str, port: str, vlan: int | None) -> None:
        run = self.session.host.run
        run(["ip", "link", "set", "dev", port, "master", bridge])
        if vlan is not None:
            run(["bridge", "vlan", "del", "dev", port, "vid", "1"], check=False)
            run(["bridge", "vlan", "add", "dev", port, "vid", str(vlan), "pvid", "untagged"])

    def _facts(self, bridge: str, is_ovs: bool) -> BridgeFacts:
        state = self._read()
        if is_ovs:
            ports = (ovs.vsctl(ovs.database(), "list-ports", bridge) or "").split()
        else:
            ports = [port.name for port in state.ports_of(bridge)]
        return BridgeFacts.of(state, bridge, ports)

    def _check(self, before: BridgeFacts, bridge: str, is_ovs: bool, action: str) -> None:
        try:
            now = self._facts(bridge, is_ovs)
        except UnavailableError as error:
            raise TrialFailed(f"after {action}: {error}") from None
        if difference := now.difference(before, bridge):
            raise TrialFailed(f"after {action}: {difference}", remedy="set it back by hand")


def _mac_in(netns: str) -> str:
    def read() -> str:
        with netlink.route_socket() as sockets:
            (link,) = sockets.link("get", ifname=DEVICE)
            return str(link.get("address"))

    return namespaces.inside(netns, read)
