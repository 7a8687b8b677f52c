"""`existing`: a network that the user has, between two endpoints that run, or to which the bench
attaches two ends.

The bench enters only network namespaces, sends datagrams through sockets of the kernel, and leaves
nothing behind. Guard rails (`host/network/guard_rails.py`) refuse paths that lead out of this
machine. Learning, MAC addresses and flooding are not verified; the counters of the devices on the
path prove the crossing.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from switchmark.errors import (
    BusyError,
    Refusal,
    SwitchmarkError,
    TrialFailed,
    UnavailableError,
    UsageError,
)
from switchmark.host import place
from switchmark.host.host import Session, Spawned
from switchmark.host.kernel import mounts, namespaces
from switchmark.host.kernel.capabilities import NEEDED, has_capability
from switchmark.host.kernel.device_counters import EndCounters
from switchmark.host.network import guard_rails
from switchmark.host.network.counted import (
    CountedDevice,
    DeviceCount,
    KnownNetwork,
    PathFacts,
)
from switchmark.host.network.entered import OpenEndpoint, open_endpoint, opened
from switchmark.host.network.expiring import read_expiring, remaining
from switchmark.host.network.guard_rails import PacketLoad
from switchmark.host.network.handle import NamespaceHandle, own_namespace
from switchmark.host.network.own_end import EndFacts
from switchmark.host.network.path import NetworkPath, PathReader, ovs_ports_of
from switchmark.host.network.probe import (
    UDP_HEADERS,
    Probed,
    Receiver,
    check_tcp,
    find_port,
    find_tcp_port,
    free_common_port,
    free_port,
    free_tcp_port,
    probe,
    probe_to,
)
from switchmark.host.network.state import NamespaceState, read_state
from switchmark.host.network.watch import RoundTripWatch
from switchmark.host.place import Facility
from switchmark.host.programs import ProgramPlace, not_installed
from switchmark.host.undo.entries import Entered, LockFile
from switchmark.locks import take_removable_lock
from switchmark.model.capabilities import (
    Availability,
    Capabilities,
    SwitchOption,
    available,
    refused,
    unavailable_for,
)
from switchmark.model.endpoints import Endpoint, EndpointKind, Endpoints
from switchmark.model.ports import (
    ConnectMode,
    MadePort,
    NetworkEnd,
    PortKind,
    SwitchCounters,
    SwitchPort,
)
from switchmark.switch.support.attaching import (
    Attachment,
    linux_bridge_refusal,
    ovs_refusal,
)
from switchmark.switch.support.docker_ends import docker_ends, docker_refusal
from switchmark.switch.support.made import MadeFirst
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.ports import check_request
from switchmark.switch.support.tools import kernel_release

NONE = "none"
DOCKER, OVS = "docker", "ovs"  # kinds of networks that ends are attached to
LOCKS = Path("/run")  # the same for all benches of this machine, whatever their state folder
FRESH_S = 10.0  # for which an answer about the network holds while a campaign is planned
OVER_IP = 18  # bytes of a frame beyond its IP packet, with FCS
FRAME_KEY = "packet_size"
_KNOWN: dict[tuple[object, ...], tuple[float, Availability]] = {}


@dataclass(frozen=True, slots=True)
class Request:
    """The network and the load that a trial asks for."""

    endpoints: Endpoints = field(default_factory=partial(Endpoints, ""))
    addresses: str = ""
    rate_pps: int | None = None  # requests/s, or bits/s of a stream, if it is an application
    packets: PacketLoad | None = None  # None: the highest rate
    max_rate_pps: int | None = None
    abort_if: int | None = None
    frame_bytes: int = 64
    size_key: str = FRAME_KEY  # the campaign key that sets the size
    duration_s: float = 1.0
    new_connections: bool = False  # each request opens a connection
    is_tcp: bool = False
    is_remote: bool = False  # the second end is a pod on another node
    servers: tuple[str, ...] = ()  # programs that a pod on another node needs


class FarEnd(Receiver, ProgramPlace, Protocol):
    """The second end of a path, in a pod on another node."""

    def open(self, peer: str) -> EndFacts:
        """Find its address towards this one, and listen. Raises UnavailableError."""
        ...

    def counts(self, device: str) -> DeviceCount:
        """The packets and bytes of one of its devices, both ways together."""
        ...

    def end_counters(self, device: str) -> EndCounters:
        """The counters of one of its devices, and of the protocols."""
        ...

    def offloads(self, device: str) -> dict[str, bool]:
        """The offloads of one of its devices."""
        ...

    def missing(self, programs: Sequence[str]) -> list[str]:
        """The programs that are not there."""
        ...

    def spawn(self, args: Sequence[str], cores: Sequence[int]) -> Spawned:
        """Start a program of its image."""
        ...

    def cpu_s(self, pids: Sequence[int]) -> float:
        """The CPU time of programs that were started there, also of those that have ended."""
        ...

    def close(self) -> None:
        """End listening. Idempotent."""
        ...


class Existing(WithOptions, MadeFirst):
    """A network of the user."""

    name = "existing"
    capabilities = Capabilities(
        port_kinds=(PortKind.ATTACHMENT,),
        connect_modes=(ConnectMode.NETWORK,),
        polling=False,
        in_kernel=True,
        keeps_offloads=True,
        max_ports=2,
        is_network=True,
        foreign=True,
        overhead_s=2.5,
        cable_ends=(),
        uncabled="a network of the user joins the ends; the second can be a pod on another node",
        cannot_reconfigure="it is a network of the user, which the bench does not change",
        description="a network that exists: between two endpoints, or with two ends attached to it",
        options=(
            SwitchOption(
                "attach",
                "the network to which the bench attaches two ends: a Linux bridge, ovs:BRIDGE or "
                "docker:NETWORK; `none`: `endpoints` names two that run",
                NONE,
                form=r"none|((ovs|docker):)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}",
                described="a bridge, ovs:BRIDGE, docker:NETWORK or none",
            ),
            SwitchOption(
                "attach_vlan",
                "the VLAN of attached ends, for a bridge that filters VLANs or an OVS tag",
                NONE,
                form=r"none|[1-9][0-9]{0,2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-4]",
                described="none, or 1 to 4094",
            ),
        ),
    )
    request = Request()
    far_end: FarEnd | None = None  # None: both ends are on this machine
    _far_facts: EndFacts | None = None
    _watch: RoundTripWatch | None = None
    _verified_by = ""  # a proof of the path without datagrams

    def availability(self) -> Availability:
        """Available if the network is there and the guard rails permit the traffic. Without a
        request, whether such networks can be measured here at all."""
        problem = (
            place.hidden_networks()
            or place.missing(Facility.NETWORK_NAMESPACE)
            or not_installed("ip", "iproute2")
        )  # fmt: skip
        if problem is not None:
            return problem
        answer = available(f"Linux {kernel_release()}")
        if not self.request.endpoints and self.option("attach") == NONE:
            return answer
        # A command without these rights only plans: the run checks the network before it starts.
        if not has_capability(NEEDED["sys_admin"]):
            return answer
        key = (self.request, *sorted(self.options().items()), guard_rails.permitted())
        known = _KNOWN.get(key)
        if known is None or time.monotonic() - known[0] > FRESH_S:
            try:
                refusal = self._refusal()
                found = answer if refusal is None else refused(refusal)
            except SwitchmarkError as error:
                found = unavailable_for(error)
            _KNOWN[key] = known = (time.monotonic(), found)
        return known[1]

    def _refusal(self) -> Refusal | None:
        """Return why traffic must not be sent; nothing is changed."""
        attach = self.option("attach")
        if attach != NONE:
            return self._attach_refusal(attach)
        if self.request.is_remote:  # `far_problems` reads the path when the pod is reached
            with opened(self.request.endpoints.ends[:1]):
                return None
        with opened(self.request.endpoints.ends) as ends, PathReader(ends) as reader:
            _check_apart(ends)
            path = self._path(reader)
            return self._guard(path, reader.state(reader.host))

    def far_problems(self) -> list[str]:
        """Return why traffic must not be sent to the pod on the other node; nothing is changed."""
        assert self.far_end is not None
        with opened(self.request.endpoints.ends[:1]) as ends, PathReader(ends) as reader:
            path = self._path_to_pod(self.far_end, reader)
            self.far_end.close()
            refusal = self._guard(path, reader.state(reader.host)) or self._servers_refusal()
        return [] if refusal is None else [str(refusal)]

    def _servers_refusal(self) -> Refusal | None:
        """Return which program of the server the pod on the other node lacks. Programs are not
        copied into it: their libraries are those of this host."""
        if self.far_end is None or not (lacking := self.far_end.missing(self.request.servers)):
            return None
        return Refusal(
            f"{self.far_end.label} has no program {' and no '.join(lacking)}, which is the server",
            "add it to the image, name another container of the pod, or choose another workload "
            "or generator",
            key="generator",
        )

    def _path_to_pod(self, far: FarEnd, reader: PathReader) -> NetworkPath:
        """Open the far end, and read the path to it as far as it is on this machine."""
        self._far_facts = far.open(reader.any_address())
        return reader.read(self._far_facts.address)

    def _attach_refusal(self, attach: str) -> Refusal | None:
        kind, _, network = attach.rpartition(":")
        host = _host_state()
        vlan = self._vlan()
        if kind == DOCKER:
            return docker_refusal(network, vlan)
        problem = ovs_refusal(network) if kind == OVS else linux_bridge_refusal(host, network, vlan)
        if problem is not None:
            return problem
        ports = ovs_ports_of(network) if kind == OVS else ()
        verdict = guard_rails.judge_bridge(host, network, guard_rails.permitted(), ports)
        link = host.links.get(network)
        return self._judged(verdict) or self._mtu_refusal(link.mtu_bytes if link else None)

    def _guard(self, path: NetworkPath, host: NamespaceState) -> Refusal | None:
        refusal = self._judged(guard_rails.judge_path(path, host, guard_rails.permitted()))
        refusal = refusal or self._mtu_refusal(path.mtu_bytes())
        if refusal is not None or not self.request.new_connections:
            return refusal
        return self._connections_refusal(path)

    def _mtu_refusal(self, mtu_bytes: int | None) -> Refusal | None:
        """Return why the frames of the trial do not fit the path; None if they do."""
        key, packet = self.request.size_key, self.request.frame_bytes - OVER_IP
        over_ip = OVER_IP if key == FRAME_KEY else -UDP_HEADERS
        if mtu_bytes is None or packet <= mtu_bytes:
            return None
        return Refusal(
            f"{key} {packet + over_ip} makes IP packets of {packet} bytes, and the path carries "
            f"{mtu_bytes}",
            f"use {key} up to {mtu_bytes + over_ip}",
            key=key,
        )

    def _connections_refusal(self, path: NetworkPath) -> Refusal | None:
        """Return why so many connections would leave too much behind; None if they may be made."""
        load = self.request
        if load.rate_pps is None:
            return Refusal(
                "connections at rate max would use up ports and entries of conntrack",
                "write a rate",
                key="rate",
            )
        free = [
            int(most) - state.conntrack_count
            for state in path.states.values()
            if state.conntrack_count is not None
            and (most := state.settings.get("netfilter/nf_conntrack_max", "")).isdigit()
        ]
        ranges = [
            int(bounds[1]) - int(bounds[0]) + 1
            for state in path.states.values()
            if len(bounds := state.settings.get("ipv4/ip_local_port_range", "").split()) == 2
        ]
        count = round(load.rate_pps * min(load.duration_s, guard_rails.TIME_WAIT_S))
        return guard_rails.connections_refusal(
            count, min(ranges, default=guard_rails.USUAL_PORTS), min(free, default=None)
        )

    def _judged(self, verdict: guard_rails.Verdict) -> Refusal | None:
        if verdict.refusals:
            return verdict.refusals[0]
        if not verdict.leaves:
            return None
        load = self.request
        return guard_rails.cap_refusal(load.packets, load.duration_s, load.max_rate_pps)

    def _path(self, reader: PathReader) -> NetworkPath:
        if self._far_facts is not None:
            return reader.read(self._far_facts.address)
        through = self.request.endpoints.through
        return reader.read(through.address if through else None)

    def _vlan(self) -> int | None:
        chosen = self.option("attach_vlan")
        return None if chosen == NONE else int(chosen)

    def make(self, _ports: Sequence[SwitchPort]) -> list[MadePort]:
        """Enter the endpoints, or attach two ends; then read the path and probe it."""
        attach = self.option("attach")
        self._lock()
        if self.far_end is not None:
            return self._make_between(self.far_end)
        if attach == NONE:
            self._open, ends = self._enter(self.request.endpoints.ends)
            _check_apart(self._open)
        else:
            self._open, ends = self._attach(attach)
        reader = PathReader(self._open)
        self.resources.at_end(partial(reader.__exit__))
        self._reader = reader
        self._seen_path = path = self._path(reader)
        host = reader.state(reader.host)
        if (refusal := self._guard(path, host)) is not None:
            raise UnavailableError(refusal)
        self._note_expiring(path)
        try:
            return [MadePort(end=end) for end in self._probed(path, ends)]
        except TrialFailed as error:
            if remedy := path.lost_checksums():
                raise TrialFailed(replace(error.refusal, remedy=remedy)) from None
            raise

    def _make_between(self, far: FarEnd) -> list[MadePort]:
        """Enter the first endpoint, and probe the path to a pod on another node."""
        self._open, (near_end, *_) = self._enter(self.request.endpoints.ends[:1])
        near = self._open[0]
        reader = PathReader(self._open)
        self.resources.at_end(partial(reader.__exit__))
        self._reader = reader
        self.resources.at_end(far.close)
        self._seen_path = path = self._path_to_pod(far, reader)
        refusal = self._guard(path, reader.state(reader.host)) or self._servers_refusal()
        if refusal is not None:
            raise UnavailableError(refusal)
        self._note_expiring(path)
        facts = self._far_facts
        assert facts is not None
        source = path.source_address
        try:
            port = free_port(near.handle, source)
            self._facts = probe_to((near.handle, source, port), far, (facts.address, facts.port))
        except OSError as error:
            raise TrialFailed(f"{near.endpoint} to {far.label}: {error.strerror}") from None
        far.close()  # its port is for the application now
        self._check_mtu(self._facts)
        arrived_from = (self._facts.source, self._facts.source_port)
        device = path.forth.stations[0].device
        return [
            MadePort(end=replace(
                near_end, device=device, mac=self._mac(0, device), ip=f"{source}/32", port=port,
                reached_at=arrived_from[0], reached_port=arrived_from[1],
            )),
            MadePort(end=NetworkEnd(
                "", facts.device, facts.mac, f"{facts.address}/32", port=facts.port,
                reached_at=facts.address, reached_port=facts.port, tcp_port=facts.port,
            )),
        ]  # fmt: skip

    def _enter(self, endpoints: Sequence[Endpoint]) -> tuple[list[OpenEndpoint], list[NetworkEnd]]:
        ends = []
        for number, endpoint in enumerate(endpoints):
            end = open_endpoint(endpoint)
            self.resources.at_end(end.handle.close)
            name = f"sm{self.session.id}e{number}"
            self.resources.note(Entered(name, end.handle.inode, str(endpoint)))
            name_open_namespace(name, end.handle)
            ends.append(end)
        return ends, [
            NetworkEnd(f"sm{self.session.id}e{number}", "", "", "") for number in range(len(ends))
        ]

    def _attach(self, attach: str) -> tuple[list[OpenEndpoint], list[NetworkEnd]]:
        kind, _, network = attach.rpartition(":")
        if (refusal := self._attach_refusal(attach)) is not None:
            raise UnavailableError(refusal)
        if kind == DOCKER:
            ends, handles = docker_ends(self.session, self.resources, network)
        else:
            attachment = Attachment(self.session, self.resources, _host_state)
            addresses = self.request.addresses.split("+")
            ends = attachment.join_bridge(network, addresses, self._vlan(), is_ovs=kind == OVS)
            handles = attachment.handles
        names = [Endpoint(EndpointKind.NETNS, end.netns) for end in ends]
        return list(map(OpenEndpoint, names, handles)), ends

    def _probed(self, path: NetworkPath, ends: Sequence[NetworkEnd]) -> list[NetworkEnd]:
        """Choose free ports, and send packets along the path to see where they arrive."""
        near, far = self._open
        target = self._reader.address_of(far, near)
        through = self.request.endpoints.through
        if through is not None and self.request.is_tcp:
            return self._probed_by_tcp(path, ends, (path.target_address, through.port or 0))
        port = free_port(near.handle, path.source_address)
        reached = (path.target_address, through.port if through and through.port else 0)
        try:
            if through is not None:
                published = find_port(near.handle, path.source_address, far.handle, reached)
                far_port = free_port(far.handle, target, published)
                tcp_port = free_tcp_port(far.handle, target)
            else:
                far_port = tcp_port = free_common_port(far.handle, target)
                reached = (target, far_port)
            self._facts = probe(
                (near.handle, path.source_address, port), (far.handle, target, far_port), reached
            )
        except OSError as error:
            raise TrialFailed(f"{near.endpoint} to {far.endpoint}: {error.strerror}") from None
        self._check_mtu(self._facts)
        tcp_ports = (None, tcp_port)
        own_ends = (
            (path.forth.stations[0].device, path.source_address, port),
            (path.back.stations[0].device, target, far_port),
        )
        others_reach = ((self._facts.source, self._facts.source_port), reached)
        return [
            replace(
                end,
                device=device,
                mac=self._mac(number, device),
                ip=f"{address}/32",
                port=udp_port,
                reached_at=others_reach[number][0],
                reached_port=others_reach[number][1],
                tcp_port=tcp_ports[number],
            )
            for number, (end, (device, address, udp_port)) in enumerate(
                zip(ends, own_ends, strict=True)
            )
        ]

    def _probed_by_tcp(
        self, path: NetworkPath, ends: Sequence[NetworkEnd], reached: tuple[str, int]
    ) -> list[NetworkEnd]:
        """Find the TCP port in the second endpoint that is reached through an address, and open a
        connection to it. The address may be published for TCP alone, so no datagram is sent."""
        near, far = self._open
        target = self._reader.address_of(far, near)
        try:
            arrival = find_tcp_port(near.handle, path.source_address, far.handle, reached)
            port = free_tcp_port(far.handle, target, arrival.port)
            source = check_tcp(
                near.handle, path.source_address, (far.handle, target, port), reached
            )
        except OSError as error:
            raise TrialFailed(f"{near.endpoint} to {far.endpoint}: {error.strerror}") from None
        self._facts = Probed(source, 0, arrival.ttl_forth, arrival.ttl_back, None)
        self._verified_by = (
            f"a TCP connection to {reached[0]}:{reached[1]} arrived at {target}:{port}"
        )
        first, second = (
            replace(
                end, device=device, mac=self._mac(number, device), ip=f"{address}/32", port=udp_port
            )
            for number, (end, device, address, udp_port) in enumerate((
                (ends[0], path.forth.stations[0].device, path.source_address,
                 free_port(near.handle, path.source_address)),
                (ends[1], path.back.stations[0].device, target, free_port(far.handle, target)),
            ))
        )  # fmt: skip
        return [
            replace(first, reached_at=source),
            replace(second, reached_at=reached[0], reached_tcp_port=reached[1], tcp_port=port),
        ]

    def _mac(self, number: int, device: str) -> str:
        state = self._reader.state(self._open[number].handle)
        return state.links[device].mac or "02:53:4d:00:00:00"

    def _check_mtu(self, found: Probed) -> None:
        if (refusal := self._mtu_refusal(found.path_mtu)) is not None:
            raise UnavailableError(refusal)

    def _lock(self) -> None:
        """Keep other benches off this network until the trial ends. Raises BusyError."""
        named = self.option("attach")
        text = named if named != NONE else "+".join(sorted(map(str, self.request.endpoints.ends)))
        handle = own_namespace()
        key = hashlib.sha256(f"{text} {handle.inode}".encode()).hexdigest()[:16]
        handle.close()
        path = LOCKS / f"switchmark-network-{key}.lock"
        self.resources.note(LockFile(str(path)))
        try:
            fd = take_removable_lock(path)
        except BlockingIOError:
            raise BusyError(
                f"another bench is measuring in {text}", remedy="wait for it, or stop it"
            ) from None
        self.resources.at_end(partial(os.close, fd))

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Note the ports: the network forwards already."""
        del cores
        check_request(self.name, self.capabilities, ports, mode)
        if self._resources is None:
            raise UsageError(f"{self.name}: its ends are made before the nodes")
        self.session, self.ports, self.mode = session, tuple(ports), mode

    def connect(self) -> None:
        """Do nothing: the network is there."""

    def wait_ports_up(self, timeout_s: float) -> None:
        """Return at once: packets have crossed the path in `make`."""

    def counters(self) -> SwitchCounters:
        """No counters of ports: others may use the devices. `network` names what is counted."""
        return SwitchCounters()

    def fault(self) -> str | None:
        """Return why an endpoint is no longer the one that was entered; None if both are."""
        return next(filter(None, (end.moved() for end in self._open)), None)

    def begin_watch(self) -> None:
        """Begin to watch the round-trip time, if the trial asks for it."""
        factor = self.request.abort_if
        if factor is None or self._watch is not None:
            return
        near, far = self._open
        path = self._seen_path
        watch = RoundTripWatch(
            (near.handle, path.source_address),
            (far.handle, self._reader.address_of(far, near)),
            factor,
        )
        self.resources.at_end(watch.close)
        watch.begin()
        self._watch = watch

    def check_watch(self) -> None:
        """Raise TrialFailed if the load has slowed the network down."""
        if self._watch is not None:
            self._watch.check()

    def stop(self) -> None:
        """See `WithResources`."""
        self._watch = None
        super().stop()

    def network(self) -> KnownNetwork:
        """The devices on the path and the facts that packets showed."""
        path, facts = self._seen_path, self._facts
        handles = {end.handle.inode: end.handle for end in self._open}
        devices = [
            CountedDevice(
                self._reader.path_of(inode), device, path.states[inode].label
            )
            for inode, device in path.counted()
        ]  # fmt: skip
        if self.far_end is not None and self._far_facts is not None:
            device = self._far_facts.device
            devices.append(CountedDevice(
                None, device, self.far_end.label, read=partial(self.far_end.counts, device)
            ))  # fmt: skip
        excluded = set(handles) if self._attaches else set()
        return KnownNetwork(
            key=self.option("attach") if excluded else str(self.request.endpoints),
            devices=devices,
            path=path.lines(),
            facts=PathFacts(
                source_address=path.source_address,
                source_seen=facts.source,
                translated=facts.source != path.source_address or path.forth.translated,
                ttl_forth=facts.ttl_forth,
                ttl_back=facts.ttl_back,
                path_mtu=facts.path_mtu,
            ),
            digest=lambda: self._path_now().digest(excluded),
            others=True,
            verified_by=self._verified_by,
            expiring=self._expiring,
        )

    def _path_now(self) -> NetworkPath:
        with PathReader(self._open) as reader:
            return self._path(reader)

    def _note_expiring(self, path: NetworkPath) -> None:
        """Read the state that expires by itself, before the bench sends anything."""
        attached = {end.handle.inode for end in self._open} if self._attaches else set()
        self._expiring_before = {
            inode: read_expiring(self._reader.handle_of(inode))
            for inode in path.states
            if inode not in attached
        }

    def _expiring(self) -> list[str]:
        """The state that has appeared on the path since the ends were made, and its expiry."""
        lines: list[str] = []
        for inode, before in self._expiring_before.items():
            handle, label = self._reader.handle_of(inode), self._seen_path.states[inode].label
            lines += remaining(handle, label, before, read_expiring(handle))
        return lines

    @property
    def _attaches(self) -> bool:
        return self.option("attach") != NONE

    def details(self) -> dict[str, str]:
        """The path, and what was entered or attached."""
        path = self._seen_path
        entered = ", ".join(str(end.endpoint) for end in self._open)
        attach = self.option("attach")
        about = (
            {"entered": f"network namespaces only: {entered}", "endpoints": self.request.endpoints}
            if attach == NONE
            else {"attached": attach, "addresses": self.request.addresses or "chosen by Docker"}
        )
        return {
            "version": f"Linux {kernel_release()}",
            "datapath": "the user's network; senders' softirq",
            "connect_mode": self.mode.value,
            **self.option_details(),
            **about,
            "path": "; ".join(path.lines()),
            "not verified": "learning, MAC addresses, flooding",
            **{
                f"firewall of {state.label}": f"{state.firewall.rules} rules"
                for state in path.states.values()
            },
        }


def name_open_namespace(name: str, handle: NamespaceHandle) -> None:
    """Give a name of the bench to an open namespace, as `ip netns attach` does. Raises OSError."""
    namespaces.NETNS_DIR.mkdir(mode=0o755, exist_ok=True)
    mounts.make_shared(namespaces.NETNS_DIR)
    path = namespaces.NETNS_DIR / name
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o444))
    mounts.bind(handle.path, path)


def _check_apart(ends: Sequence[OpenEndpoint]) -> None:
    near, far = ends
    if near.handle.inode == far.handle.inode:
        raise UnavailableError(
            f"endpoints: {near.endpoint} and {far.endpoint} are in one network namespace: packets "
            "between them stay on its loopback device",
            remedy="name endpoints in two network namespaces",
        )


def _host_state() -> NamespaceState:
    handle = own_namespace()
    try:
        return read_state(handle)
    finally:
        handle.close()
