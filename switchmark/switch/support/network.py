"""The base of switches that are container networks: their ends are namespaces with addresses.

A container network attaches a whole namespace: device, address, routes, and rules on the host. So
the ends are made before the nodes, and the namespaces of the ends are those of the nodes. The
promises of a switch of frames (learning, MAC addresses, no flooding) do not apply. The counters of
the devices on the way, the TTL and the source address prove that traffic crossed the network.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmark.errors import SwitchmarkError, TrialFailed, UnavailableError
from switchmark.host.container_networks.private_host import PrivateHost
from switchmark.host.container_networks.probe import FIRST_TTL, Arrival, Listener, wait_for_answer
from switchmark.host.host import Session
from switchmark.host.kernel import device_counters, namespaces, procfs
from switchmark.host.network.counted import ENDS, CountedDevice, KnownNetwork, PathFacts
from switchmark.host.network.handle import namespace_inode_of
from switchmark.host.process_output import parse_json, parsing
from switchmark.host.undo.entries import NetworkNamespace
from switchmark.model.capabilities import Capabilities
from switchmark.model.ports import (
    ConnectMode,
    MadePort,
    NetworkEnd,
    PortCounters,
    PortKind,
    SwitchCounters,
    SwitchPort,
)
from switchmark.switch.support import overlay
from switchmark.switch.support.made import MadeFirst
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.overlay import Overlay
from switchmark.switch.support.ports import check_request, require
from switchmark.switch.support.private import Namespace

ANSWER_TIMEOUT_S = 10.0
PROBED_PORT = 16999  # the listener uses it at an end with published ports
_STATE = (
    "net.ipv4.ip_forward",
    "net.bridge.bridge-nf-call-iptables",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_max",
)


@dataclass(frozen=True, slots=True)
class Link:
    """A network device, as the kernel describes it."""

    name: str
    kind: str
    index: int
    peer: int | None  # index of the other end, or of the parent
    master: str
    mtu_bytes: int = 0


@dataclass(slots=True)
class Way:
    """The two ends of a pair, and the devices of the host behind each."""

    pair: int
    ends: tuple[NetworkEnd, NetworkEnd]
    inside: tuple[Link, Link]  # the devices of the ends
    host_links: tuple[list[Link], list[Link]]
    arrival: Arrival | None = None  # at the second end
    back: Arrival | None = None  # at the first end
    between: tuple[str, ...] = ()  # stations between the host's devices, in the order of packets

    @property
    def shared_bridge(self) -> str:
        """The bridge that alone forwards between the ends; empty if a router also forwards."""
        near, far = ({one.name for one in links if one.kind == "bridge"} for links in
                     self.host_links)  # fmt: skip
        alone = self.arrival is not None and self.arrival.ttl == FIRST_TTL
        both = near & far
        if self.between or len(both) != 1 or not alone or self.is_translated:
            return ""
        return next(iter(both))

    @property
    def is_translated(self) -> bool:
        """Return True if the second end saw another source than the address of the first."""
        return self.arrival is not None and self.arrival.source != _address(self.ends[0])

    @property
    def written(self) -> str:
        """The devices in the order of packets."""
        near, far = ([link.name for link in links] for links in self.host_links)
        bridge = self.shared_bridge
        behind = reversed([name for name in far if name != bridge])
        middle = [*near, *self.between, *behind]
        return " - ".join([self.ends[0].device, *middle, self.ends[1].device])


def _address(end: NetworkEnd) -> str:
    return end.ip.partition("/")[0]


def read_links(session: Session, netns: str) -> list[Link]:
    """Return the devices of a namespace. Raises TrialFailed if `ip` reports none."""
    done = session.host.run(["ip", "-n", netns, "-d", "-j", "link", "show"], check=False)
    entries = parse_json("ip -j link", done.stdout or "[]")
    if not isinstance(entries, list):
        raise TrialFailed("ip -j link: its output has an unknown form")
    return [_link(entry) for entry in entries if isinstance(entry, dict) and entry.get("ifname")]


def _link(entry: Mapping[str, Any]) -> Link:
    info, peer = entry.get("linkinfo"), entry.get("link_index")
    kind = info.get("info_kind", "") if isinstance(info, dict) else ""
    index = entry.get("ifindex")
    return Link(
        str(entry["ifname"]),
        str(kind),
        index if isinstance(index, int) else 0,
        peer if isinstance(peer, int) and peer > 0 else None,
        str(entry.get("master", "")),
        mtu if isinstance(mtu := entry.get("mtu"), int) else 0,
    )


def read_address(session: Session, netns: str, device: str) -> tuple[str, str]:
    """Return the MAC address and the first IPv4 address of a device, with its prefix length. Raises
    TrialFailed if it has none."""
    done = session.host.run(
        ["ip", "-n", netns, "-j", "address", "show", "dev", device], check=False
    )
    with parsing("ip -j address"):
        (entry,) = json.loads(done.stdout or "[]")
        for address in entry["addr_info"]:
            if address["family"] == "inet":
                return str(entry["address"]), f"{address['local']}/{address['prefixlen']}"
    raise TrialFailed(f"device {device} of {netns} has no IPv4 address")


def devices_behind(end: Link, host: Sequence[Link]) -> list[Link]:
    """Return the devices of the host behind a device of an end, the nearest first: the other end of
    a veth or the parent, then the bridge that it belongs to."""
    found: list[Link] = []
    link = next((one for one in host if one.index == end.peer), None)
    while link is not None and link not in found:
        found.append(link)
        link = next((one for one in host if one.name == link.master), None)
    return found


# Common capabilities of networks in a private host.
NETWORK = Capabilities(
    port_kinds=(PortKind.ATTACHMENT,),
    connect_modes=(ConnectMode.NETWORK,),
    polling=False,
    in_kernel=True,
    is_network=True,
    keeps_offloads=True,
    longest_frame_bytes=1518,
    cable_ends=(),
    uncabled="its host is a network namespace of this machine",
)


@dataclass(frozen=True, slots=True)
class Host:
    """A network namespace that plays a host, and its files."""

    namespace: Namespace
    private: PrivateHost


class NetworkSwitch(WithOptions, MadeFirst):
    """A container network in a private host, or in two with an overlay between them. A subclass
    makes the ends."""

    hosts: list[Host]
    overlay: Overlay | None
    ends: list[NetworkEnd]
    _ways: list[Way]

    @abstractmethod
    def make_ends(self, requested: Sequence[SwitchPort]) -> list[NetworkEnd]:
        """Make the network in `self.hosts`, and these ends."""

    @abstractmethod
    def prepare_host(self, host: Host) -> None:
        """Set up a host before anything is attached."""

    def open_host(self, number: int) -> Host:
        """Make a host: its network namespace and its files. The machine's files are read-only for
        the tools of the network."""
        name = "" if number == 0 else str(number)
        namespace = self.resources.namespace(firewall=True, suffix=name)
        namespaces.inside(namespace.name, silence_multicast)
        return Host(namespace, PrivateHost(namespace.name, self.resources.folder(f"host{name}")))

    def host_of(self, number: int) -> Host:
        """Return the host of a port: with two hosts, the second ends of pairs are in the second."""
        return self.hosts[number % len(self.hosts)]

    def make(self, requested: Sequence[SwitchPort]) -> list[MadePort]:
        """Make the hosts, the network and its ends."""
        chosen = self.option(overlay.OPTION.name)
        count = 1 if chosen == overlay.OFF else 2
        self.hosts = []
        for number in range(count):
            host = self.open_host(number)
            self.resources.at_end(host.private.close)
            self.hosts.append(host)
        self.namespace = self.hosts[0].namespace
        self.overlay = (
            Overlay([host.namespace for host in self.hosts], chosen) if count > 1 else None
        )
        self._namespaces: dict[str, int] = {}  # with their entries in the ledger
        for host in self.hosts:
            self.prepare_host(host)
        if self.overlay is not None:
            self.overlay.make_link()
        self.ends = self.make_ends(requested)
        return [MadePort(end=end) for end in self.ends]

    def make_end_namespace(self, name: str) -> str:
        """Make the namespace of an end, which the network has yet to attach."""
        self._namespaces[name] = self.resources.note(NetworkNamespace(name))
        namespaces.create_namespace(name)
        return name

    def remove_end_namespace(self, name: str) -> None:
        """Remove such a namespace before the end of the switch."""
        self.session.ledger.undo(self._namespaces.pop(name))

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Check that the ends reach each other, and note the counters on the way."""
        del cores
        if self._resources is None:
            require(self.name, self.availability())
        check_request(self.name, self.capabilities, ports, mode)
        self.session, self.ports, self.mode = session, tuple(ports), mode
        if self._resources is None:
            raise UnavailableError(f"{self.name}: it makes its ports itself, before the nodes")
        if problem := self.fault():
            self.stop()
            raise UnavailableError(f"{self.name}: {problem}")
        try:
            self._find_ways()
        except BaseException:
            self.stop()
            raise
        self._first = self._port_counters()

    def connect(self) -> None:
        """Do nothing: the ends are attached as soon as they are made."""

    def wait_ports_up(self, timeout_s: float) -> None:
        """Return at once: `start` has arrival an answer of every end."""

    def counters(self) -> SwitchCounters:
        """The counters of the devices in the ends, as the network sees them."""
        now = self._port_counters()
        return SwitchCounters({index: now[index].since(self._first[index]) for index in now}, None)

    def fault(self) -> str | None:
        """Return the reason why an end is no longer attached; None if all are."""
        for end in self.ends:
            try:
                device_counters.device_frames(end.netns, end.device)
            except OSError:
                return f"device {end.device} of {end.netns} is gone"
        return None

    def network(self) -> KnownNetwork:
        """See `HasNetwork`: the devices of the ends, and the other ends of their veth pairs.

        Devices of a macvlan hand packets to each other past their parent, so only they count."""
        devices, path = [], []
        for way in self._ways:
            for number, (end, inside, links) in enumerate(
                zip(way.ends, way.inside, way.host_links, strict=True)
            ):
                side = "ab"[number]
                devices.append(CountedDevice(end.netns, end.device, end.netns, f"{ENDS}{side}"))
                if inside.kind == "veth" and not end.is_host:
                    if not links:
                        raise TrialFailed(
                            f"{self.name}: the other end of {end.device} of {end.netns} is not on "
                            "the host of the network"
                        )
                    host = self.host_of(number).namespace.name
                    devices.append(CountedDevice(host, links[0].name, host, f"host {side}"))
            path.append(f"pair {way.pair}: {way.written}")
        if self.overlay is not None:  # all pairs cross each of these
            devices += [CountedDevice(host, name, host) for host, name in self.overlay.devices]
        first, ttl = self._ways[0], self._ways[0].arrival
        return KnownNetwork(
            key=f"{self.name} {sorted(self.options().items())} {len(self.ends)} ends",
            devices=devices,
            path=path,
            facts=PathFacts(
                source_address=_address(first.ends[0]),
                source_seen=ttl.source if ttl else "",
                translated=first.is_translated,
                ttl_forth=ttl.ttl if ttl else None,
                ttl_back=first.back.ttl if first.back else None,
            ),
            digest=self._digest,
        )

    def _digest(self) -> str:
        """Return a hash of the settings, rules and devices, without names that differ each time."""
        names = [host.namespace.name for host in self.hosts]
        kinds = [sorted(link.kind for link in read_links(self.session, name)) for name in names]
        state = {key: value for key, value in self.network_state().items() if "count" not in key}
        return hashlib.sha256(repr((sorted(state.items()), kinds)).encode()).hexdigest()[:16]

    def network_state(self) -> dict[str, str]:
        """Settings and numbers of the hosts that cost time on the way."""
        values = self._state_of(self.hosts[0])
        for host in self.hosts[1:]:
            values |= {f"second host {key}": text for key, text in self._state_of(host).items()}
        return values

    def _state_of(self, host: Host) -> dict[str, str]:
        values = {key: host.namespace.sysctl(key) for key in _STATE}
        rules = host.private.inside(
            lambda: self.session.host.run(["nft", "-s", "list", "ruleset"], check=False)
        )
        if rules.exit_code == 0:
            lines = [line.strip() for line in rules.stdout.splitlines()]
            values["nft base chains"] = str(sum(line.startswith("type ") for line in lines))
            values["nft rules"] = str(sum(_is_rule(line) for line in lines))
        return values

    @property
    def mtu(self) -> str:
        """The MTU of the first end that a network attached, for the record."""
        return str(self._ways[0].inside[1].mtu_bytes)

    def overlay_details(self) -> dict[str, str]:
        """The settings of the overlay, for the record; empty without an overlay."""
        return self.overlay.details() if self.overlay is not None else {}

    def _find_ways(self) -> None:
        names = [host.namespace.name for host in self.hosts]
        links = [read_links(self.session, name) for name in names]
        self._ways = []
        for pair in range(len(self.ends) // 2):
            ends = (self.ends[2 * pair], self.ends[2 * pair + 1])
            near, far = map(self._device_of, ends)
            behind = (
                [] if ends[0].is_host else devices_behind(near, links[0]),
                [] if ends[1].is_host else devices_behind(far, links[-1]),
            )
            way = Way(pair, ends, (near, far), behind, between=self.between())
            way.arrival, way.back = self.probe_way(*ends)
            self._ways.append(way)
        for netns in {*names, *(end.netns for end in self.ends)}:
            self._keep_neighbours(netns)

    def between(self) -> tuple[str, ...]:
        """Return the stations between the devices of the host behind each end, beside a bridge."""
        return tuple(name for _, name in self.overlay.devices) if self.overlay else ()

    def probe_way(self, near: NetworkEnd, far: NetworkEnd) -> tuple[Arrival | None, Arrival | None]:
        """Send datagrams between the ends of a pair; return what arrived at the second end and at
        the first."""
        return self._probe(near, far), self._probe(far, near)

    def _keep_neighbours(self, netns: str) -> None:
        """Make the known neighbours of a namespace permanent. The kernel would ask for them again
        after some seconds, and the answers would disturb the counters."""
        shown = self.session.host.run(["ip", "-n", netns, "-j", "-4", "neigh", "show"], check=False)
        lines = []
        with parsing("ip -j neigh"):
            for entry in json.loads(shown.stdout or "[]"):
                if "lladdr" in entry and "PERMANENT" not in entry["state"]:
                    to, dev = f"{entry['dst']} lladdr {entry['lladdr']}", entry["dev"]
                    lines.append(f"neigh replace {to} dev {dev} nud permanent")
        if lines:
            text = "\n".join(lines) + "\n"
            self.session.host.run(["ip", "-n", netns, "-batch", "-"], input_text=text)

    def _device_of(self, end: NetworkEnd) -> Link:
        for link in read_links(self.session, end.netns):
            if link.name == end.device:
                return link
        raise TrialFailed(f"{self.name}: device {end.device} of {end.netns} is gone")

    def _probe(self, near: NetworkEnd, far: NetworkEnd) -> Arrival | None:
        """Send a datagram from one end to the other; return what arrived there."""
        address = far.reached_at or _address(far)
        listener = Listener(far.netns, _address(far), PROBED_PORT if far.reached_at else 0)
        try:
            wait_for_answer(near.netns, listener, address, ANSWER_TIMEOUT_S)
            return listener.first
        except SwitchmarkError as error:
            raise TrialFailed(f"{self.name}: {error}: {self._likely_cause(near)}") from None
        finally:
            listener.close()

    def _likely_cause(self, near: NetworkEnd) -> str:
        failed = self.session.host.run(
            ["ip", "-n", near.netns, "neigh", "show", "nud", "failed"], check=False
        ).stdout.strip()
        if failed:
            return f"nobody answered the ARP request for {failed.split()[0]}"
        return "rules or routes of the network may drop it (nft list ruleset in its host)"

    def _port_counters(self) -> dict[int, PortCounters]:
        counted = {}
        for port, end in zip(self.ports, self.ends, strict=True):
            received, sent = device_counters.device_frames(end.netns, end.device)
            counted[port.index] = PortCounters(rx_frames=sent, tx_frames=received)
        return counted


def end_processes_in(session_id: str, netns: str) -> None:
    """End the processes of a session that plugins, or a daemon that died, left in a host."""
    inode = (namespaces.NETNS_DIR / netns).stat().st_ino
    left = procfs.session_processes(session_id)
    procfs.end_processes([one for one in left if namespace_inode_of(one.pid) == inode])


def silence_multicast() -> None:
    """Let the host send no IGMP reports: a new bridge sends some to all its ports, and they would
    disturb the counters."""
    with suppress(OSError):  # a kernel without multicast sends none
        Path("/proc/sys/net/ipv4/igmp_link_local_mcast_reports").write_text("0")


def _is_rule(line: str) -> bool:
    """Return True if a line of a ruleset without handles is a rule."""
    heads = ("table ", "chain ", "set ", "map ", "type ", "}", "policy ", "#", "elements", "flags")
    return bool(line) and not line.startswith(heads)
