"""The neutral table: the work of a switch, as values that do not name any switch.

A generator makes the table once. Each switch translates it into its own configuration. The checker
computes expected frames from the neutral table alone, never from a switch's configuration.

Routes are arrays, since a table may hold a million of them; everything else is short.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from switchmark.model.functions import ROUTE

if TYPE_CHECKING:
    import numpy as np

UDP = 17
PORT_PROTOCOLS = {6: "tcp", UDP: "udp"}  # the protocols with ports
HOPS_A_PORT = 2
HOP_MAC = "02:6e:00:00:{hop:02x}:{port:02x}"
STATION_MAC = "02:76:00:00:{:02x}:{:02x}"  # destination behind a tunnel, by the tunnel's number
UNKNOWN_STATION_MAC = STATION_MAC.format(255, 255)  # more tunnels than the parameter permits


@dataclass(frozen=True, slots=True)
class RouterPort:
    """A port of the switch with its own addresses as a router, and the tester behind it. The
    tester's address is a host of the table: a route of full length to the tester's MAC."""

    index: int
    mac: str
    address: str  # with prefix length
    host: str  # address of the tester, without prefix length
    host_mac: str


@dataclass(frozen=True, slots=True)
class NextHop:
    """A next hop of the routing table. Its neighbour entry is static."""

    index: int  # in the table
    port: int
    mac: str
    address: str  # without prefix length


def next_hops(port: int, first: int, ip_version: int) -> list[NextHop]:
    """Return the next hops of a port; `first`: the number of the first next hop in the table."""
    before = f"198.19.{port}." if ip_version == 4 else f"2001:2:0:{0x8000 + port:x}::"
    return [
        NextHop(first + k, port, HOP_MAC.format(hop=k, port=port), f"{before}{2 + k}")
        for k in range(HOPS_A_PORT)
    ]


@dataclass(frozen=True, slots=True)
class Rule:
    """An entry of an access control list. An absent field matches everything; port ranges include
    both ends. Rules with ports match UDP or TCP frames of `protocol` only."""

    permit: bool
    source: str  # prefix
    destination: str  # prefix
    protocol: int | None = UDP
    source_ports: tuple[int, int] | None = None
    destination_ports: tuple[int, int] | None = None

    @property
    def ports(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """The ranges of source and destination ports."""
        return self.source_ports, self.destination_ports


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A VXLAN tunnel: its VNI, its outer addresses as the switch sees them, the MAC address to
    which outer frames are sent, and the MAC address of the station behind the remote end, by which
    a frame chooses its tunnel."""

    vni: int
    local: str
    remote: str
    local_mac: str
    remote_mac: str
    station_mac: str = ""


@dataclass(frozen=True, slots=True)
class Vlan:
    """A tag that the switch pushes or pops on the way from even to odd ports; on the way back it
    does the reverse. `both` is `push` for traffic both ways."""

    vid: int
    direction: str  # push, pop or both

    def is_trunk(self, port: int) -> bool:
        """Return True if the frames of a port have the tag."""
        return port % 2 == (0 if self.direction == "pop" else 1)


@dataclass(frozen=True, slots=True)
class Policer:
    """A single-rate policer (RFC 2697 without marking): excess frames are dropped. Both values
    count bytes of the L2 frame without FCS."""

    cir_bps: int
    cbs_bytes: int


@dataclass(frozen=True, slots=True)
class Mirror:
    """Every frame that enters by `source` is also copied to `monitor`."""

    source: int
    monitor: int
    copies: bool = True  # False only in a planted error


class Routes:
    """Prefixes with their next hops: three arrays of one length. `networks` has a row of 4 or 16
    bytes for each prefix, in network byte order."""

    def __init__(self, networks: np.ndarray, lengths: np.ndarray, hops: np.ndarray) -> None:
        self.networks = networks
        self.lengths = lengths
        self.hops = hops
        self.index: dict[int, Any] = {}  # prefix length -> sorted prefixes, for `longest_match`

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """Yield network address, prefix length and next hop of each route."""
        for row, bits, hop in zip(self.networks, self.lengths, self.hops, strict=True):
            yield str(ipaddress.ip_address(row.tobytes())), int(bits), int(hop)

    def without(self, number: int) -> Routes:
        """Return the routes without one of them."""
        import numpy as np

        return Routes(*(np.delete(a, number, 0) for a in (self.networks, self.lengths, self.hops)))

    def digest(self) -> str:
        """Return a hash of the content."""
        whole = hashlib.sha256()
        for array in (self.networks, self.lengths, self.hops):
            whole.update(array.tobytes())
        return whole.hexdigest()


@dataclass(frozen=True)
class FunctionTable:
    """Everything that a switch must do in a trial, for all switches alike."""

    functions: tuple[str, ...]  # base first
    ip_version: int
    ports: tuple[RouterPort, ...]
    next_hops: tuple[NextHop, ...] = ()
    routes: Routes | None = None  # without the hosts of `ports`; None: the base is not `route`
    rules: tuple[Rule, ...] = ()
    default_permit: bool = False  # verdict of an access control list if no rule matches
    tunnels: tuple[Tunnel, ...] = ()
    tunnel_direction: str = "both"  # encap, decap or both, on the way from even to odd ports
    vlan: Vlan | None = None
    policer: Policer | None = None
    mirror: Mirror | None = None
    frame_bytes: int = 64  # largest L2 frame of the load, with FCS
    smallest_frame_bytes: int = 64  # equal to `frame_bytes` if all frames have one size
    decrements_ttl: bool = True  # False only in a planted error
    seed: int = 1
    extra: dict[str, Any] = field(
        default_factory=dict
    )  # parts of functions that other packages add

    @property
    def is_routed(self) -> bool:
        """Return True if the base is `route`."""
        return self.functions[0] == ROUTE

    @property
    def has_acl(self) -> bool:
        """Return True if frames are filtered."""
        return "acl" in self.functions

    @property
    def access_port(self) -> int:
        """The port whose frames have no outer headers, of function `vxlan`."""
        return 1 if self.tunnel_direction == "decap" else 0

    @property
    def underlay_port(self) -> int:
        """The port whose frames are inside tunnels."""
        return self.access_port ^ 1

    @property
    def unknown_tunnel(self) -> Tunnel:
        """A tunnel that the switch does not have: another VNI, and another station."""
        first, last = self.tunnels[0], self.tunnels[-1]
        return replace(first, vni=first.vni - 1 or last.vni + 1, station_mac=UNKNOWN_STATION_MAC)

    @property
    def address_bytes(self) -> int:
        """Bytes of an IP address."""
        return 4 if self.ip_version == 4 else 16

    @property
    def host_bits(self) -> int:
        """Length of the prefix of a single address."""
        return 8 * self.address_bytes

    def prefixes(self) -> Iterator[tuple[str, int, str, int]]:
        """Yield each route as network, prefix length, MAC address of the next hop, egress port;
        the hosts of the ports come first."""
        for port in self.ports:
            yield port.host, self.host_bits, port.host_mac, port.index
        for network, bits, hop in self.routes or ():
            yield network, bits, self.next_hops[hop].mac, self.next_hops[hop].port

    def entries_of_ports(self) -> dict[str, int]:
        """Return the numbers of native entries of a switch that has each table once for a port."""
        numbers = {}
        if self.is_routed:
            numbers["routes"] = len(self.routes or ()) + len(self.ports)
        if self.rules:
            numbers["filters"] = len(self.ports)
        if self.policer:
            numbers["policers"] = len(self.ports)
        if self.vlan:
            numbers["tags"] = sum(self.vlan.is_trunk(port.index) for port in self.ports)
        if self.mirror:
            numbers["copies"] = int(self.mirror.copies)
        return numbers

    def digest(self) -> str:
        """Return a hash of the content, the name under which the table is stored."""
        text = repr(
            (self.functions, self.ip_version, self.ports, self.next_hops, self.rules,
             self.default_permit, self.tunnels, self.tunnel_direction, self.vlan, self.policer,
             self.mirror, self.decrements_ttl)
        )  # fmt: skip
        whole = hashlib.sha256(text.encode())
        whole.update((self.routes.digest() if self.routes else "").encode())
        return whole.hexdigest()[:16]
