"""An observer at a node's device: a packet socket independent of the engine, except for the place
of its stamp. It starts before the node's application, so that it misses no frame."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from switchmark.environment.support.base import Environment, Node
from switchmark.host.host import Session
from switchmark.model.capabilities import Availability
from switchmark.model.node import NodeSpec
from switchmark.model.ports import PortKind
from tests.integration.switch_rig import packet_socket

SOL_PACKET, PACKET_STATISTICS, PACKET_AUXDATA = 263, 6, 8  # linux/if_packet.h
VLAN_VALID = 0x10  # TP_STATUS_VLAN_VALID
TAG_TYPES = (0x8100, 0x88A8)
POLL_S = 0.05
MARK, DATA = 0x53, 1  # the engine's stamp (engine/traffic/frame.h)


@dataclass(frozen=True, slots=True)
class SeenFrame:
    """A data frame of the engine as it was on the wire."""

    size_bytes: int  # with FCS and all tags
    tags: tuple[tuple[int, int], ...]  # (EtherType, VLAN ID), outermost first
    ip_version: int
    flow: tuple[bytes, bytes, int, int]  # source and destination address, then ports
    stream: int
    sequence: int
    intended_ticks: int  # due time by the sender's clock, the low 48 bits


class Watch(threading.Thread):
    """Stores every frame that arrives at a device, until the device goes down with its node."""

    def __init__(self, namespace: str, device: str) -> None:
        super().__init__(daemon=True)
        self.raw: list[tuple[bytes, tuple[int, int] | None]] = []
        self.missed = 0
        self._socket = packet_socket(namespace, device)
        self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self._socket.settimeout(POLL_S)
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        """Receive until nothing more comes or the device goes down."""
        with suppress(OSError):
            while not self._over.is_set():
                with suppress(TimeoutError):
                    self._take(0)

    def finish(self) -> None:
        """Read the remaining frames and close the socket. Idempotent."""
        if self._over.is_set():
            return
        self._over.set()
        self.join()
        with suppress(OSError):
            while True:
                self._take(socket.MSG_DONTWAIT)
        statistics = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self.missed = struct.unpack("II", statistics)[1]
        self._socket.close()

    def _take(self, flags: int) -> None:
        data, ancillary, _, address = self._socket.recvmsg(16384, 256, flags)
        if address[2] == socket.PACKET_OUTGOING:
            return
        tag = None
        for level, kind, content in ancillary:
            if level == SOL_PACKET and kind == PACKET_AUXDATA:
                status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", content[:20])
                tag = (tpid, tci & 0xFFF) if status & VLAN_VALID else None
        self.raw.append((data, tag))

    def data_frames(self) -> list[SeenFrame]:
        """Return the engine's data frames in order of arrival; the node must be closed."""
        assert self._over.is_set(), "the node is still there"
        assert self.missed == 0, "the observer itself was too slow"
        found = (_decode(data, tag) for data, tag in self.raw)
        return [frame for frame in found if frame is not None]


def _decode(data: bytes, stripped: tuple[int, int] | None) -> SeenFrame | None:
    """Return None if it is not the engine's data. The kernel removes the outermost tag."""
    tags = [stripped] if stripped else []
    at, kind = 14, struct.unpack_from("!H", data, 12)[0]
    while kind in TAG_TYPES:
        tci, following = struct.unpack_from("!HH", data, at)
        tags.append((kind, tci & 0xFFF))
        at, kind = at + 4, following
    if kind == 0x0800:
        version, source, target, udp = 4, data[at + 12 : at + 16], data[at + 16 : at + 20], at + 20
    elif kind == 0x86DD:
        version, source, target, udp = 6, data[at + 8 : at + 24], data[at + 24 : at + 40], at + 40
    else:
        return None
    stamp = udp + 8
    if len(data) < stamp + 18 or data[stamp] != MARK or data[stamp + 1] >> 4 & 3 != DATA:
        return None
    ports = struct.unpack_from("!HH", data, udp)
    stream, sequence = struct.unpack_from("!HI", data, stamp + 2)
    due = int.from_bytes(data[stamp + 8 : stamp + 14], "big")
    size = len(data) + 4 + (4 if stripped else 0)
    return SeenFrame(size, tuple(tags), version, (source, target, *ports), stream, sequence, due)


@dataclass
class WatchingEnvironment:
    """An environment that has a `Watch` at the device of one of its nodes."""

    within: Environment
    node: str
    watch: Watch | None = None
    netns: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the environment itself."""
        return self.within.name

    def availability(self) -> Availability:
        """The environment's availability."""
        return self.within.availability()

    def port_kinds(self) -> tuple[PortKind, ...]:
        """The environment's port kinds."""
        return self.within.port_kinds()

    def create(self, session: Session, spec: NodeSpec) -> Node:
        """Create the node, observed if it is the chosen node."""
        node = self.within.create(session, spec)
        self._look_at([node])
        return node

    def create_wire(self, session: Session, a: NodeSpec, b: NodeSpec) -> tuple[Node, Node]:
        """Create the nodes, one of which may be observed."""
        nodes = self.within.create_wire(session, a, b)
        self._look_at(nodes)
        return nodes

    def _look_at(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            assert node.netns is not None
            self.netns[node.spec.name] = node.netns
            if node.spec.name == self.node:
                device = node.spec.port.device_inside
                assert device is not None
                self.watch = Watch(node.netns, device)
                _before(node, self.watch.finish)


def _before(node: Node, first: Callable[[], None]) -> None:
    """Call this before the node is closed, as a socket would keep its namespace and devices."""
    for name in ("close", "begin_close"):
        if (then := getattr(node, name, None)) is not None:
            setattr(node, name, lambda then=then: (first(), then())[1])
