"""Packets of the bench along a path before any load: free ports, reachability, TTL, path MTU.

Sockets are opened inside network namespaces of the user and closed at once; nothing else is done
there. At most ten packets a second are sent.
"""

from __future__ import annotations

import errno
import secrets
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host.network.handle import NamespaceHandle

FIRST_PORT, LAST_PORT = 17000, 17999
INTERVAL_S, TRIES = 0.1, 20
IP_MTU, IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_RECVTTL = 14, 10, 2, 12
UDP_HEADERS = 28  # IPv4 and UDP
MOST_DATAGRAM = 65535 - UDP_HEADERS
ARP_WAIT_S = 0.3
ETH_P_ARP = 0x0806
TCP_SYN, TCP_ACK = 0x02, 0x10
CONNECT_S = 3.0


@dataclass(frozen=True, slots=True)
class Probed:
    """The facts of a path that packets showed."""

    source: str  # address and port at which the second end received the packets of the first
    source_port: int
    ttl_forth: int | None
    ttl_back: int | None
    path_mtu: int | None


def free_port(handle: NamespaceHandle, address: str, only: int | None = None) -> int:
    """A UDP port that no socket of this namespace has; `only`: no other.

    Raises UnavailableError."""

    def choose() -> int:
        for port in [only] if only is not None else range(FIRST_PORT, LAST_PORT + 1):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
                probe.bind(("", port))  # on every address: a socket on any of them counts
                return port
        which = f"port {only} is" if only is not None else f"ports from {FIRST_PORT} on are"
        raise UnavailableError(f"{handle.label}: UDP {which} in use at {address}")

    return handle.inside(choose)


def free_tcp_port(handle: NamespaceHandle, address: str, only: int | None = None) -> int:
    """A TCP port at which no program of this namespace listens, and that no connection has; `only`:
    no other. Raises UnavailableError."""

    def choose() -> int:
        for port in [only] if only is not None else range(FIRST_PORT, LAST_PORT + 1):
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, suppress(OSError):
                probe.bind(("", port))
                return port
        which = f"port {only} is" if only is not None else f"ports from {FIRST_PORT} on are"
        raise UnavailableError(f"{handle.label}: TCP {which} in use at {address}")

    return handle.inside(choose)


def free_common_port(handle: NamespaceHandle, address: str) -> int:
    """A port that is free for UDP and for TCP: iperf3 uses both. Raises UnavailableError."""
    for port in range(FIRST_PORT, LAST_PORT + 1):
        with suppress(UnavailableError):
            return free_tcp_port(handle, address, free_port(handle, address, port))
    raise UnavailableError(f"{handle.label}: ports from {FIRST_PORT} on are in use at {address}")


class Receiver(Protocol):
    """The second end of a path, as the probe uses it; it can be on another host."""

    label: str

    def received(self, token: bytes) -> tuple[tuple[str, int], int | None] | None:
        """Return the source and the TTL of a datagram with this token; None before it arrives."""
        ...

    def received_size(self, size: int) -> bool:
        """Return True if a datagram of this size has arrived."""
        ...

    def answer(self, token: bytes, source: tuple[str, int]) -> None:
        """Send a token to the source of a datagram."""
        ...


class SocketReceiver:
    """A socket of this host as the second end."""

    def __init__(self, bound: socket.socket, label: str) -> None:
        self.label = label
        self._bound = bound

    def received(self, token: bytes) -> tuple[tuple[str, int], int | None] | None:
        """See `Receiver`."""
        return _received(self._bound, token)

    def received_size(self, size: int) -> bool:
        """See `Receiver`."""
        return _received_size(self._bound, size)

    def answer(self, token: bytes, source: tuple[str, int]) -> None:
        """See `Receiver`."""
        with suppress(OSError):
            self._bound.sendto(token, source)


def bound_socket(handle: NamespaceHandle, address: str, port: int) -> socket.socket:
    """Open a UDP socket in a namespace, which also receives the TTL. Raises OSError."""

    def bind() -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            bound.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
            bound.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
            bound.setblocking(False)
            bound.bind((address, port))
        except BaseException:
            bound.close()
            raise
        return bound

    return handle.inside(bind)


def probe(
    near: tuple[NamespaceHandle, str, int],
    far: tuple[NamespaceHandle, str, int],
    target: tuple[str, int],
) -> Probed:
    """Send datagrams from `near` to `target`, which are to arrive at `far`, and answers back. The
    ends are a namespace, an address and a port. Raises TrialFailed if they do not arrive."""
    with bound_socket(*far) as bound:
        return probe_to(near, SocketReceiver(bound, far[0].label), target)


def probe_to(
    near: tuple[NamespaceHandle, str, int], receiver: Receiver, target: tuple[str, int]
) -> Probed:
    """As `probe`, with a second end that can be on another host."""
    token = secrets.token_bytes(16)
    with bound_socket(*near) as sender:
        sender.connect(target)
        found = _reach(sender, receiver, token, f"{near[0].label} to {target[0]}:{target[1]}")
        source, ttl = found
        answer = token[::-1]
        back = None
        for _ in range(TRIES):
            receiver.answer(answer, source)
            time.sleep(INTERVAL_S)
            back = _received(sender, answer)
            if back is not None:
                break
        if back is None:
            raise TrialFailed(
                f"{receiver.label}: its answers do not arrive at {near[0].label}",
                remedy="a rule or a route on the way back may drop them (switchmark path)",
            )
        mtu = _path_mtu(sender, receiver, token)
        return Probed(source[0], source[1], ttl, back[1], mtu)


def find_port(
    near: NamespaceHandle, address: str, far: NamespaceHandle, target: tuple[str, int]
) -> int:
    """The UDP port in `far` to which the network translates `target`. Raises TrialFailed."""

    def listen() -> socket.socket:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
        raw.setblocking(False)
        return raw

    token = secrets.token_bytes(16)
    with bound_socket(near, address, 0) as sender, far.inside(listen) as raw:
        for _ in range(TRIES):
            with suppress(OSError):
                sender.sendto(token, target)
            time.sleep(INTERVAL_S)
            port = _port_of(raw, token)
            if port is not None:
                return port
    raise TrialFailed(
        f"{near.label} to {target[0]}:{target[1]}: no packet arrives at {far.label}",
        remedy="is the UDP port published to this endpoint?",
    )


@dataclass(frozen=True, slots=True)
class TcpArrival:
    """Where the first packet of a TCP connection arrives, and what it shows of the path."""

    port: int
    source: str
    ttl_forth: int
    ttl_back: int | None


def find_tcp_port(
    near: NamespaceHandle, address: str, far: NamespaceHandle, target: tuple[str, int]
) -> TcpArrival:
    """The TCP port in `far` to which the network translates `target`. Raises TrialFailed.

    A SYN with a number of the bench is sent. No connection is opened: the kernel of `near` answers
    whatever comes back with a reset."""

    def listen() -> socket.socket:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
        raw.setblocking(False)
        return raw

    def reserve() -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        bound.bind((address, 0))
        return bound

    number = secrets.randbits(32)
    with (
        near.inside(reserve) as reserved,
        near.inside(listen) as sender,
        far.inside(listen) as receiver,
    ):
        sender.bind((address, 0))
        source = (address, int(reserved.getsockname()[1]))
        for _ in range(TRIES):
            with suppress(OSError):
                sender.sendto(syn(source, target, number), (target[0], 0))
            time.sleep(INTERVAL_S)
            found = next((one for one in _segments(receiver) if one.is_syn(number)), None)
            if found is not None:
                back = next((one.ttl for one in _segments(sender) if one.answers(number)), None)
                return TcpArrival(found.port, found.source, found.ttl, back)
    raise TrialFailed(
        f"{near.label} to {target[0]}:{target[1]}: no TCP packet arrives at {far.label}",
        remedy="is the TCP port published to this endpoint?",
    )


@dataclass(frozen=True, slots=True)
class _Segment:
    """The headers of a TCP packet that arrived at a raw socket."""

    source: str
    ttl: int
    port: int  # destination
    number: int
    acknowledged: int
    flags: int

    def is_syn(self, number: int) -> bool:
        return self.flags & (TCP_SYN | TCP_ACK) == TCP_SYN and self.number == number

    def answers(self, number: int) -> bool:
        return bool(self.flags & TCP_ACK) and self.acknowledged == (number + 1) & 0xFFFFFFFF


def _segments(raw: socket.socket) -> Iterator[_Segment]:
    """Yield the packets that wait at a raw socket."""
    while True:
        try:
            packet = raw.recv(2048)
        except OSError:
            return
        header = packet[(packet[0] & 15) * 4 :]
        if len(packet) >= 20 and len(header) >= 20:
            _, port, number, acknowledged, flags = struct.unpack("!HHIIH", header[:14])
            yield _Segment(
                socket.inet_ntoa(packet[12:16]), packet[8], port, number, acknowledged, flags & 0x3F
            )


def syn(source: tuple[str, int], target: tuple[str, int], number: int) -> bytes:
    """The first packet of a TCP connection, without its IP header."""
    options = struct.pack("!BBH", 2, 4, 1460)  # maximum segment size
    length = 20 + len(options)
    head = struct.pack(
        "!HHIIHH", source[1], target[1], number, 0, length // 4 << 12 | TCP_SYN, 1024
    )
    addresses = socket.inet_aton(source[0]) + socket.inet_aton(target[0])
    pseudo = addresses + struct.pack("!BBH", 0, socket.IPPROTO_TCP, length)
    halves = struct.unpack(f"!{(len(pseudo) + length) // 2}H", pseudo + head + bytes(4) + options)
    total = sum(halves)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return head + struct.pack("!HH", ~total & 0xFFFF, 0) + options


def check_tcp(
    near: NamespaceHandle,
    address: str,
    far: tuple[NamespaceHandle, str, int],
    target: tuple[str, int],
) -> str:
    """Open a TCP connection from `near` to `target` that must reach a listener at `far`, and let
    each end receive a token of the other. Return the source address that the listener saw. Raises
    TrialFailed."""
    token = secrets.token_bytes(16)
    handle, far_address, port = far

    def listen() -> socket.socket:
        return socket.create_server((far_address, port))

    def connect() -> socket.socket:
        dialling = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        dialling.settimeout(CONNECT_S)
        dialling.bind((address, 0))
        # A reset instead of the usual end leaves no port in TIME_WAIT.
        dialling.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            dialling.connect(target)
        except OSError:
            dialling.close()
            raise
        return dialling

    way = f"{near.label} to {target[0]}:{target[1]}"
    try:
        with handle.inside(listen) as listener:
            listener.settimeout(CONNECT_S)
            with near.inside(connect) as client:
                server, source = listener.accept()
                with server:
                    server.settimeout(CONNECT_S)
                    client.sendall(token)
                    forth = server.recv(len(token), socket.MSG_WAITALL)
                    server.sendall(token[::-1])
                    back = client.recv(len(token), socket.MSG_WAITALL)
    except OSError as error:
        raise TrialFailed(
            f"{way}: no TCP connection to {handle.label}: {error.strerror or error}",
            remedy="a rule or a route may drop it (switchmark path)",
        ) from None
    if (forth, back) != (token, token[::-1]):
        raise TrialFailed(f"{way}: another program than that of the bench is at its other end")
    return str(source[0])


def _port_of(raw: socket.socket, token: bytes) -> int | None:
    """The destination port of a packet of the bench that has arrived at a raw socket."""
    while True:
        try:
            packet = raw.recv(2048)
        except OSError:
            return None
        header = packet[(packet[0] & 15) * 4 :]
        if header[8:] == token:
            return int.from_bytes(header[2:4], "big")


def _reach(
    sender: socket.socket, receiver: Receiver, token: bytes, way: str
) -> tuple[tuple[str, int], int | None]:
    refused = ""
    for _ in range(TRIES):
        try:
            sender.send(token)
        except OSError as error:
            refused = f": {error.strerror}"
        time.sleep(INTERVAL_S)
        arrived = receiver.received(token)
        if arrived is not None:
            return arrived
    raise TrialFailed(
        f"{way}: no packet arrives{refused}",
        remedy="a rule, an isolated network or a missing route may drop them (switchmark path)",
    )


def _received(receiver: socket.socket, token: bytes) -> tuple[tuple[str, int], int | None] | None:
    """The source and the TTL of a datagram of the bench that has arrived; others are ignored."""
    while True:
        try:
            data, more, _, source = receiver.recvmsg(len(token) + 1, 64)
        except OSError:
            return None
        if data == token:
            ttl = next(
                (struct.unpack("i", value[:4])[0] for level, kind, value in more
                 if level == socket.IPPROTO_IP and kind == socket.IP_TTL and len(value) >= 4),
                None,
            )  # fmt: skip
            return (str(source[0]), int(source[1])), ttl


def _path_mtu(sender: socket.socket, receiver: Receiver, token: bytes) -> int | None:
    """The largest packet that arrives whole, if one byte more is refused; None if that is unclear.
    Routers on the way report a smaller MTU once, so it is read again after each loss."""
    for _ in range(4):
        try:
            mtu = int(sender.getsockopt(socket.IPPROTO_IP, IP_MTU))
        except OSError:
            return None
        size = min(mtu - UDP_HEADERS, MOST_DATAGRAM)
        payload = token + bytes(max(0, size - len(token)))
        try:
            sender.send(payload)
        except OSError:
            continue
        time.sleep(INTERVAL_S)
        if not receiver.received_size(size):
            with suppress(OSError):
                sender.recv(1)  # takes the error that a router has reported
            continue
        try:
            sender.send(payload + b"x")
        except OSError as error:
            return mtu if error.errno == errno.EMSGSIZE else None
        return mtu if size == MOST_DATAGRAM else None
    return None


def _received_size(receiver: socket.socket, size: int) -> bool:
    while True:
        try:
            if len(receiver.recv(MOST_DATAGRAM + 1)) == size:
                return True
        except OSError:
            return False


def answering_mac(handle: NamespaceHandle, device: str, address: str) -> str | None:
    """The MAC address that answers an ARP probe (RFC 5227) for this address; None if nobody does.

    The probe has no sender address, so that no table of the network changes. Raises OSError."""
    return handle.inside(partial(_ask, device, socket.inet_aton(address)))


def _ask(device: str, address: bytes) -> str | None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP)) as asking:
        asking.bind((device, ETH_P_ARP))
        mac = asking.getsockname()[4]
        head = b"\xff" * 6 + mac + struct.pack("!H", ETH_P_ARP)
        frame = head + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + bytes(4) + bytes(6)
        for _ in range(3):
            asking.send(frame + address)
            deadline = time.monotonic() + ARP_WAIT_S
            while (left := deadline - time.monotonic()) > 0:
                asking.settimeout(left)
                try:
                    answer = asking.recv(128)
                except (TimeoutError, OSError):
                    break
                if len(answer) >= 42 and answer[28:32] == address and answer[22:28] != mac:
                    return ":".join(f"{byte:02x}" for byte in answer[22:28])
    return None
