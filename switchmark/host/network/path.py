"""The path of packets between two endpoints: devices, bridges, routers, and where it leaves.

The path follows routes, the other ends of veth pairs, ports of bridges and parents of macvlan
devices, from namespace to namespace. It is read from the kernel and from Open vSwitch; nothing is
sent and nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from switchmark.errors import UnavailableError
from switchmark.host.network import ovs
from switchmark.host.network.entered import OpenEndpoint
from switchmark.host.network.handle import NamespaceHandle, other_namespaces, own_namespace
from switchmark.host.network.state import BONDS, Link, NamespaceState, read_state
from switchmark.host.process_output import parse_json, parsing
from switchmark.host.programs import which

MOST_STATIONS = 64  # a longer path is a loop
OURS = "sm"  # begins the names of the devices of the bench
TX_CHECKSUM = "tx-checksumming"
COUNTING = ("sends", "receives", "leaves")
BETWEEN_PORTS = ("bridges", "switches")
ON_A_PARENT = ("macvlan", "macvtap", "ipvlan")


@dataclass(frozen=True, slots=True)
class Station:
    """One device on a path, and what happens to packets there."""

    namespace: int  # inode
    device: str
    action: str  # "sends", "receives", "bridges", "routes", "switches", "is the parent", "leaves"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """The path one way."""

    stations: tuple[Station, ...]
    arrives: bool
    end: str  # why it ends where it does
    translated: bool = False  # the destination is an address of a router on the way

    @property
    def routers(self) -> int:
        """The number of routers: each takes 1 from the TTL."""
        return sum(station.action == "routes" for station in self.stations)


UNKNOWN_WAY = Trace((), False, "nothing is known of the way back")


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """The path between two endpoints, both ways, with the namespaces that it crosses."""

    source_address: str
    target_address: str
    forth: Trace
    back: Trace
    states: dict[int, NamespaceState]
    host: int  # inode of the host's namespace
    unseen: tuple[str, ...] = ()

    def devices(self) -> list[tuple[int, str]]:
        """The inode and the name of each device on the path, both ways, each once."""
        stations = (*self.forth.stations, *self.back.stations)
        return list(dict.fromkeys((one.namespace, one.device) for one in stations if one.device))

    def link(self, namespace: int, device: str) -> Link | None:
        """A device of the path; None if the kernel does not list it (a port of user-space OVS)."""
        state = self.states.get(namespace)
        return state.links.get(device) if state else None

    def mtu_bytes(self) -> int | None:
        """The smallest MTU of the devices on the path that packets go through. The MTU of a bridge
        does not limit packets that it hands from port to port."""
        stations = (*self.forth.stations, *self.back.stations)
        links = [
            self.link(station.namespace, station.device)
            for station in stations
            if station.action not in BETWEEN_PORTS
        ]
        return min((link.mtu_bytes for link in links if link), default=None)

    def lost_checksums(self) -> str:
        """Return the remedy if senders leave checksums to a network card, and a switch on the path
        reads frames in user space, where they are lost; otherwise an empty text."""
        senders: dict[str, str] = {}
        for trace in (self.forth, self.back):
            bridges = [one for one in trace.stations if one.action == "switches"]
            for bridge in bridges:
                link = self.link(bridge.namespace, bridge.device)
                first = trace.stations[0]
                sender = self.link(first.namespace, first.device)
                in_user_space = link is not None and link.kind == "tun"
                if in_user_space and sender is not None and sender.offloads.get(TX_CHECKSUM):
                    where = self.states[first.namespace].label
                    senders[f"`ethtool -K {first.device} tx off` in {where}"] = bridge.device
        if not senders:
            return ""
        return (
            f"{next(iter(senders.values()))} is a bridge of Open vSwitch in user space, where "
            f"checksums that a device leaves to the network card are lost: {' and '.join(senders)}"
        )

    def digest(self, excluded: Collection[int] = ()) -> str:
        """A hash of the devices on the path and of the rules and settings around them, without the
        devices of the bench and the `excluded` namespaces."""
        parts = []
        for inode, state in self.states.items():
            names = [
                device
                for namespace, device in self.devices()
                if namespace == inode and not device.startswith(OURS)
            ]
            if names and inode not in excluded:
                parts.append(state.digest(names))
        return "-".join(sorted(parts))

    def lines(self) -> list[str]:
        """A line for each station of the way forth."""
        return [
            f"{self.states[one.namespace].label}: {one.device} {one.action}"
            + (f" ({one.note})" if one.note else "")
            for one in self.forth.stations
        ]

    def counted(self) -> list[tuple[int, str]]:
        """The devices that count each packet. A bridge and the parent of macvlan devices do not
        count the packets that they hand from port to port."""
        stations = (*self.forth.stations, *self.back.stations)
        places = {(one.namespace, one.device) for one in stations if one.action in COUNTING}
        return [place for place in self.devices() if place in places]


@dataclass
class _Position:
    """Where a trace is: about to be routed in a namespace, having come in by a device."""

    handle: NamespaceHandle
    incoming: str | None = None


@dataclass
class PathReader:
    """Follows paths. A context manager that closes the namespaces which it opened itself."""

    ends: Sequence[OpenEndpoint]
    unseen: list[str] = field(default_factory=list)
    host: NamespaceHandle = field(default_factory=own_namespace)
    _states: dict[int, NamespaceState] = field(default_factory=dict)
    _numbers: dict[tuple[int, int], NamespaceHandle | None] = field(default_factory=dict)
    _others: list[NamespaceHandle] = field(default_factory=list)
    _searched: bool = False

    def __enter__(self) -> PathReader:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in (self.host, *self._others):
            handle.close()

    def read(self, target_address: str | None = None) -> NetworkPath:
        """Read the path between the two ends, or from the first to an address, and from there to
        the second if there is one. Raises UnavailableError."""
        source = self.ends[0]
        target = self.ends[1] if len(self.ends) > 1 else None
        address = self.address_of(target, source) if target else target_address
        assert address is not None, "a path has a second end or an address"
        forth = self._trace(source, target, target_address or address, address)
        source_address = self._source_address(source, target_address or address)
        back = (
            self._trace(target, source, source_address, source_address)
            if target is not None
            else UNKNOWN_WAY
        )
        self.unseen += [
            f"{state.label}: its firewall rules (no `nft` that may read them)"
            for state in self._states.values()
            if not state.firewall.program
        ]
        crossed = {station.namespace for trace in (forth, back) for station in trace.stations}
        return NetworkPath(
            source_address, target_address or address, forth, back,
            {inode: self._states[inode] for inode in self._states if inode in crossed},
            self.host.inode, tuple(dict.fromkeys(self.unseen)),
        )  # fmt: skip

    def path_of(self, inode: int) -> str | None:
        """The path of an open namespace, for `namespaces.inside`; None for this process's own."""
        handle = self.handle_of(inode)
        return None if handle.is_own else handle.path

    def handle_of(self, inode: int) -> NamespaceHandle:
        """The open namespace with this inode."""
        handles = (self.host, *(end.handle for end in self.ends), *self._others)
        return next(handle for handle in handles if handle.inode == inode)

    def state(self, handle: NamespaceHandle) -> NamespaceState:
        """The state of a namespace, read once. Raises UnavailableError if it cannot be entered."""
        if handle.inode not in self._states:
            try:
                self._states[handle.inode] = read_state(handle)
            except OSError as error:
                why = (error.strerror or str(error)).rpartition(": ")[2]
                raise UnavailableError(
                    f"{handle.label}: its network namespace cannot be entered ({why})",
                    remedy="use sudo",
                ) from None
        return self._states[handle.inode]

    def address_of(self, target: OpenEndpoint, source: OpenEndpoint) -> str:
        """The IPv4 address of an endpoint that the other one would use: in a subnet of both if
        there is one. Raises UnavailableError without an address."""
        links = self.state(target.handle).links.values()
        texts = [
            address
            for link in links
            if target.device in (None, link.name) and not link.loopback
            for address in link.addresses
            if ":" not in address
        ]
        if not texts:
            where = f"device {target.device} has no" if target.device else "no device has a"
            raise UnavailableError(
                f"{target.endpoint}: {where} global IPv4 address",
                remedy="is the endpoint connected to a network?",
            )
        addresses = [text.partition("/")[0] for text in texts]
        for address in addresses:
            route = self._route(source.handle, address)
            if route is not None and "gateway" not in route and route.get("type") != "local":
                return address
        return addresses[0]

    def any_address(self) -> str:
        """An IPv4 address of the first end. Raises UnavailableError without one."""
        end = self.ends[0]
        for link in self.state(end.handle).links.values():
            for address in () if link.loopback else link.addresses:
                if ":" not in address:
                    return address.partition("/")[0]
        raise UnavailableError(
            f"{end.endpoint}: no device has a global IPv4 address",
            remedy="is the endpoint connected to a network?",
        )

    def _source_address(self, source: OpenEndpoint, target: str) -> str:
        route = self._route(source.handle, target) or {}
        if source.device is not None:
            link = self.state(source.handle).links[source.device]
            addresses = [text.partition("/")[0] for text in link.addresses if ":" not in text]
            if addresses:
                return addresses[0]
        address = route.get("prefsrc")
        if not address:
            raise UnavailableError(
                f"{source.endpoint}: it has no route to {target}",
                remedy="see `ip route get` there, or name an endpoint in the same network",
            )
        return str(address)

    def _trace(
        self, source: OpenEndpoint, target: OpenEndpoint | None, address: str, final: str
    ) -> Trace:
        trace = _Tracing(self, source, target, address, final)
        end = trace.run()
        return Trace(tuple(trace.stations), trace.arrived, end, trace.translated)

    def _route(
        self, handle: NamespaceHandle, address: str, came: tuple[str, str] | None = None
    ) -> dict[str, Any] | None:
        """The route that the kernel chooses; None without one. `came`: the source address and the
        device of a forwarded packet."""
        more = ["from", came[0], "iif", came[1]] if came else []
        text = handle.output_of(["ip", "-j", "-4", "route", "get", address, *more])
        if not text:
            return None
        rows = parse_json("ip -j", text)
        with parsing("ip -j"):
            return dict(rows[0])

    def has_rule_for(self, handle: NamespaceHandle, address: str) -> bool:
        """Return True if a NAT rule of a namespace has this address, which it then translates. The
        probe proves later to which end."""
        if not self.state(handle).firewall.nat_rules:
            return False
        texts = (
            handle.output_of(args)
            for args in (["nft", "list", "ruleset"], ["iptables-nft-save", "-t", "nat"])
            if which(args[0]) is not None
        )
        written = re.compile(rf"(?<![\d.]){re.escape(address)}(?![\d.])")
        return any(text and written.search(text) for text in texts)

    def namespace_of(self, handle: NamespaceHandle, number: int | None) -> NamespaceHandle | None:
        """The namespace that devices of another one refer to by this number (None: the same one).
        None if it is not visible."""
        if number is None:
            return handle
        key = (handle.inode, number)
        if key not in self._numbers:
            self._numbers[key] = self._visible(handle, number)
        return self._numbers[key]

    def _visible(self, handle: NamespaceHandle, number: int) -> NamespaceHandle | None:
        found = next((one for one in self._all() if handle.number_of(one) == number), None)
        if found is not None:
            try:
                self.state(found)
            except UnavailableError as error:
                self.unseen.append(str(error))
                return None
        return found

    def _all(self) -> Iterator[NamespaceHandle]:
        known = [self.host, *(end.handle for end in self.ends)]
        yield from known
        yield from self._others
        if not self._searched:
            self._searched = True
            for handle in other_namespaces([*known, *self._others]):
                self._others.append(handle)
                yield handle


@dataclass
class _Tracing:
    """One trace that is under way."""

    reader: PathReader
    source: OpenEndpoint
    target: OpenEndpoint | None
    address: str
    final: str  # where a translated destination goes on to
    stations: list[Station] = field(default_factory=list)
    arrived: bool = False
    translated: bool = False
    _here: _Position | None = None
    _origin: str = ""
    _next_hop: str = ""
    _mac: str = ""
    _vlan: object = None  # number of the VLAN in which the packet is; None: untagged

    def run(self) -> str:
        """Follow the path; return why it ends."""
        self._here = _Position(self.source.handle)
        while len(self.stations) < MOST_STATIONS:
            here, self._here = self._here, None
            assert here is not None
            end = self._routed(here)
            if end or self._here is None:
                return end
        return "the path returns to where it was: a loop of routes"

    def _routed(self, here: _Position) -> str:
        """Send the packet on by the routes of this namespace."""
        came = (self._origin, here.incoming) if here.incoming else None
        if self.address != self.final and self.reader.has_rule_for(here.handle, self.address):
            self.translated, self.address = True, self.final
        route = self.reader._route(here.handle, self.address, came)
        label = self.reader.state(here.handle).label
        if route is None:
            return f"{label} has no route to {self.address}"
        if route.get("type") == "local":
            return self._local(here, label)
        if "dev" not in route:
            return f"{label}: packets to {self.address} are {route.get('type', 'not sent')}"
        device = str(route["dev"])
        if not self.stations and self.source.device not in (None, device):
            return f"{label} reaches {self.address} by {device}, not by {self.source.device}"
        self._origin = self._origin or str(route.get("prefsrc", ""))
        self._next_hop = str(route.get("gateway", self.address))
        self._mac = self._neighbour(here.handle, self._next_hop)
        if here.incoming:
            self.stations[-1:] = [
                Station(here.handle.inode, here.incoming, "routes", f"next hop {self._next_hop}")
            ] if self.stations[-1].device == here.incoming else [
                self.stations[-1],
                Station(here.handle.inode, here.incoming, "routes", f"next hop {self._next_hop}"),
            ]  # fmt: skip
        return self._out_of(here.handle, device)

    def _local(self, here: _Position, label: str) -> str:
        if self.target is not None and here.handle.inode == self.target.handle.inode:
            self.arrived = bool(self.stations)
            return "" if self.arrived else f"{self.address} is a local address in {label}"
        if self.target is not None and self.address != self.final and here.incoming:
            self.translated, self.address = True, self.final
            self._here = here
            return ""
        self.arrived = self.target is None and bool(self.stations)
        return f"{self.address} is an address of {label}"

    def _neighbour(self, handle: NamespaceHandle, address: str) -> str:
        text = handle.output_of(["ip", "-j", "-4", "neighbour", "show", address]) or "[]"
        rows = parse_json("ip -j", text)
        with parsing("ip -j"):
            return next((str(row["lladdr"]) for row in rows if "lladdr" in row), "")

    def _out_of(self, handle: NamespaceHandle, device: str, note: str = "") -> str:
        """Leave a namespace by a device."""
        link = self.reader.state(handle).links.get(device)
        if link is None:
            return f"{handle.label}: device {device} is gone"
        if link.kind == "bridge":
            self.stations.append(Station(handle.inode, device, "bridges", note))
            return self._over_bridge(handle, device, "")
        self.stations.append(Station(handle.inode, device, "sends", note))
        return self._beyond(handle, link)

    def _beyond(self, handle: NamespaceHandle, link: Link) -> str:
        """Follow what lies behind a device."""
        over = {
            **dict.fromkeys(ON_A_PARENT, self._over_parent),
            **dict.fromkeys(BONDS, self._over_bond),
            "vlan": self._over_vlan,
        }.get(link.kind)
        if over is not None:
            return over(handle, link)
        if link.is_physical:
            self.stations.append(Station(handle.inode, link.name, "leaves"))
            return f"the path leaves this machine by {link.name}"
        if link.is_tunnel:
            return f"the path enters the {link.kind} tunnel {link.name}, to another host"
        if bridge := ovs_bridge_of(link.name):
            return self._over_ovs(handle, bridge, link.name)
        return self._over_pair(handle, link)

    def _over_pair(self, handle: NamespaceHandle, link: Link) -> str:
        """Come to the other end of a veth pair."""
        if link.kind not in ("veth", "netkit") or link.peer_index is None:
            return f"{link.name} ({link.kind or 'device'}) leads to a program, or to nothing known"
        peer_home = self.reader.namespace_of(handle, link.peer_namespace)
        if peer_home is None:
            self.reader.unseen.append(
                f"the other end of {link.name}: its namespace has no process and no name that this "
                "user can enter"
            )
            return f"the other end of {link.name} is not visible"
        peer = self.reader.state(peer_home).by_index(link.peer_index)
        return self._into(peer_home, peer) if peer else f"the other end of {link.name} is gone"

    def _into(self, handle: NamespaceHandle, link: Link) -> str:
        """Come into a namespace by a device."""
        state = self.reader.state(handle)
        above: Link | None = link
        while above is not None:
            link = above
            self.stations.append(Station(handle.inode, link.name, "receives"))
            above = self._above(state, link)
        if self.target is not None and handle.inode == self.target.handle.inode:
            self.arrived = True
            return ""
        master = state.links.get(link.master or "")
        if master is not None and master.kind == "bridge":
            self.stations.append(Station(handle.inode, master.name, "bridges"))
            router = next(filter(self._is_next_hop, _stacked_on(state, master)), None)
            if router is None:
                return self._over_bridge(handle, master.name, link.name)
            if router is not master:
                self.stations.append(Station(handle.inode, router.name, "receives"))
            self._here = _Position(handle, router.name)
            return ""
        if bridge := ovs_bridge_of(link.name):
            return self._over_ovs(handle, bridge, link.name)
        if master is not None:
            return f"{link.name} is a port of {master.name} ({master.kind}), which is not followed"
        self._here = _Position(handle, link.name)
        return ""

    def _is_next_hop(self, link: Link) -> bool:
        """Return True if a device has the address of the next hop."""
        return self._next_hop in {text.partition("/")[0] for text in link.addresses}

    def _above(self, state: NamespaceState, link: Link) -> Link | None:
        """The device that takes what a device receives: a VLAN device, or a bond."""
        for vlan in _vlans_on(state, link):
            if self._vlan is not None and vlan.info.get("id") == self._vlan:
                self._vlan = None
                return vlan
        master = state.links.get(link.master or "")
        return master if master is not None and master.kind in BONDS else None

    def _over_bridge(self, handle: NamespaceHandle, bridge: str, incoming: str) -> str:
        """Leave a bridge by the port behind which the next hop is."""
        ports = {port.name: port for port in self.reader.state(handle).ports_of(bridge)}
        port = self._entrance(handle, ports) or self._learned(handle, bridge, ports)
        others = [one for name, one in ports.items() if name != incoming]
        if port is None and incoming and len(others) == 1:
            port = others[0]  # whether or not it has learned the address
        if port is None or port.name == incoming:
            return (
                f"bridge {bridge} has not learned behind which of its {len(ports)} ports "
                f"{self._next_hop} is"
            )
        self.stations.append(Station(handle.inode, port.name, "sends"))
        return self._beyond(handle, port)

    def _entrance(self, handle: NamespaceHandle, ports: dict[str, Link]) -> Link | None:
        """The port whose other end is in the target's namespace and has the next hop's address."""
        if self.target is None:
            return None
        inside = self.reader.state(self.target.handle)
        for port in ports.values():
            home = self.reader.namespace_of(handle, port.peer_namespace)
            if home is None or home.inode != inside.inode or port.peer_index is None:
                continue
            link = inside.by_index(port.peer_index)
            if (
                link
                and not _is_passive(inside, link)
                and any(map(self._is_next_hop, _stacked_on(inside, link)))
            ):
                return port
        return None

    def _learned(self, handle: NamespaceHandle, bridge: str, ports: dict[str, Link]) -> Link | None:
        if not self._mac or which("bridge") is None:
            return None
        text = handle.output_of(["bridge", "-j", "fdb", "show", "br", bridge]) or "[]"
        rows = parse_json("bridge -j", text)
        with parsing("bridge -j"):
            names = [str(row["ifname"]) for row in rows if row.get("mac") == self._mac]
        return next((ports[name] for name in names if name in ports), None)

    def _below(
        self, handle: NamespaceHandle, link: Link, called: str
    ) -> tuple[NamespaceHandle, Link] | str:
        """Return the namespace of the device below this one, and that device. If it is not visible,
        return the reason why the path ends here, which begins with `called`."""
        home = self.reader.namespace_of(handle, link.peer_namespace)
        below = self.reader.state(home).by_index(link.peer_index or 0) if home else None
        if home is None or below is None:
            self.reader.unseen.append(f"the {called} {link.name}")
            return f"the {called} {link.name} is not visible"
        return home, below

    def _over_vlan(self, handle: NamespaceHandle, link: Link) -> str:
        """Leave a VLAN device by the device below it, with a tag."""
        found = self._below(handle, link, "device below")
        if isinstance(found, str):
            return found
        home, parent = found
        if self._vlan is not None:
            return f"{link.name} adds a second tag, which is not followed"
        self._vlan = link.info.get("id")
        return self._out_of(home, parent.name, f"VLAN {self._vlan}")

    def _over_bond(self, handle: NamespaceHandle, link: Link) -> str:
        """Leave a bond by the port that sends."""
        ports = {port.name: port for port in self.reader.state(handle).ports_of(link.name)}
        names = ", ".join(ports) or "none"
        if ports and all(port.is_physical for port in ports.values()):
            self.stations.append(Station(handle.inode, link.name, "leaves"))
            return f"the path leaves this machine by {link.name} (ports: {names})"
        active = ports.get(str(link.info.get("active_slave", "")))
        if active is None and len(ports) == 1:
            (active,) = ports.values()
        if active is None:
            return f"{link.name} shares packets among its ports ({names}), which is not followed"
        self.stations.append(Station(handle.inode, active.name, "sends"))
        return self._beyond(handle, active)

    def _over_parent(self, handle: NamespaceHandle, link: Link) -> str:
        found = self._below(handle, link, "parent of")
        if isinstance(found, str):
            return found
        home, parent = found
        self.stations.append(Station(home.inode, parent.name, "is the parent"))
        if self.target is not None:
            for other in self.reader.state(self.target.handle).links.values():
                on = self.reader.namespace_of(self.target.handle, other.peer_namespace)
                if (
                    other.kind in ON_A_PARENT
                    and on is not None
                    and (on.inode, other.peer_index) == (home.inode, parent.index)
                    and self._is_next_hop(other)
                ):
                    self.stations.append(Station(self.target.handle.inode, other.name, "receives"))
                    self.arrived = True
                    return ""
        return self._beyond(home, parent)

    def _over_ovs(self, handle: NamespaceHandle, bridge: str, incoming: str) -> str:
        self.stations.append(Station(handle.inode, bridge, "switches", "Open vSwitch"))
        for port in ovs_ports_of(bridge):
            link = self.reader.state(handle).links.get(port)
            if port != incoming and link and self._entrance(handle, {port: link}):
                self.stations.append(Station(handle.inode, port, "sends"))
                return self._over_pair(handle, link)
        return f"the flows of {bridge} decide where packets go"


def _vlans_on(state: NamespaceState, link: Link) -> list[Link]:
    """The VLAN devices of a namespace on one of its devices."""
    return [
        one
        for one in state.links.values()
        if one.kind == "vlan" and (one.peer_index, one.peer_namespace) == (link.index, None)
    ]


def _stacked_on(state: NamespaceState, link: Link) -> list[Link]:
    """A device, the bond that it is a port of, and the VLAN devices on both."""
    master = state.links.get(link.master or "")
    below = [link, *([master] if master is not None and master.kind in BONDS else [])]
    return [*below, *(vlan for one in below for vlan in _vlans_on(state, one))]


def _is_passive(state: NamespaceState, link: Link) -> bool:
    """Return True for a port of a bond that has another active port."""
    master = state.links.get(link.master or "")
    active = None if master is None else master.info.get("active_slave")
    return active is not None and active != link.name


def ovs_bridge_of(device: str) -> str | None:
    """The Open vSwitch bridge that a device is a port of; None if it is not a port of any."""
    return None if ovs.missing() else ovs.vsctl(ovs.database(), "port-to-br", device) or None


def ovs_ports_of(bridge: str) -> list[str]:
    """The ports of an Open vSwitch bridge."""
    return (ovs.vsctl(ovs.database(), "list-ports", bridge) or "").split()
