"""An end of a path in the network namespace of this process: its address, socket and counters.

The agent in a pod uses it. Such a process has no rights beyond those of the pod, and the image may
contain no `ip`, so that everything comes from sockets and from /proc.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host.kernel import device_counters
from switchmark.host.kernel.device_counters import EndCounters
from switchmark.host.kernel.device_settings import offloads_of
from switchmark.host.kernel.sockets import is_bound
from switchmark.host.network.handle import own_namespace
from switchmark.host.network.probe import SocketReceiver, bound_socket, free_common_port
from switchmark.host.programs import which

SIOCGIFADDR, SIOCGIFHWADDR = 0x8915, 0x8927
ANY_PORT = 9  # a UDP socket that is connected sends nothing
LONGEST_TOKEN = 64


@dataclass(frozen=True, slots=True)
class EndFacts:
    """The device and the addresses by which this namespace reaches the other end."""

    device: str
    address: str
    mac: str
    port: int  # free, of UDP and of TCP
    inode: int  # identifies the network namespace


@dataclass(frozen=True, slots=True)
class Arrival:
    """A datagram of the bench that has arrived: its source, and its TTL."""

    address: str
    port: int
    ttl: int | None


class OwnEnd:
    """The end of a path in this namespace; one socket is open from `open` to `close`."""

    def __init__(self) -> None:
        self._receiver: SocketReceiver | None = None
        self._socket: socket.socket | None = None

    def open(self, peer: str) -> EndFacts:
        """Find the device and the address towards the other end, and listen at a free port.

        Raises UnavailableError."""
        self.close()
        address = _address_towards(peer)
        device, mac = _device_of(address)
        handle = own_namespace()
        try:
            port = free_common_port(handle, address)
            self._socket = bound_socket(handle, address, port)
        finally:
            handle.close()
        self._receiver = SocketReceiver(self._socket, "the pod")
        return EndFacts(device, address, mac, port, handle.inode)

    def received(self, token: str) -> Arrival | None:
        """Return the datagram with this token (hex digits) if it has arrived."""
        arrived = self._open().received(bytes.fromhex(token[: 2 * LONGEST_TOKEN]))
        return None if arrived is None else Arrival(*arrived[0], arrived[1])

    def received_size(self, size: int) -> bool:
        """Return True if a datagram of this size has arrived."""
        return self._open().received_size(size)

    def answer(self, token: str, address: str, port: int) -> None:
        """Send a token to the source of a datagram."""
        self._open().answer(bytes.fromhex(token[: 2 * LONGEST_TOKEN]), (address, port))

    def counts(self, device: str) -> tuple[int, int]:
        """Return the packets and bytes that a device has received and sent. Raises TrialFailed if
        it is gone."""
        fields = device_counters.all_device_counters(None).get(device)
        if fields is None:
            raise TrialFailed(f"device {device} is gone")
        return fields[1] + fields[9], fields[0] + fields[8]

    def end_counters(self, device: str) -> EndCounters:
        """Return the counters of a device and of the protocols in this namespace."""
        return device_counters.end_counters(None, device)

    def offloads(self, device: str) -> dict[str, bool]:
        """Return the offloads of a device. Reading them needs no privilege."""
        return offloads_of(device)

    def is_bound(self, protocol: str, port: int) -> bool:
        """Return True if a socket of this namespace is bound to a port; for TCP, if it listens."""
        return is_bound(protocol, port)

    def missing(self, programs: list[str]) -> list[str]:
        """Return the programs that are not in PATH here."""
        return [program for program in programs if which(program) is None]

    def close(self) -> None:
        """Close the socket. Idempotent."""
        opened, self._socket, self._receiver = self._socket, None, None
        if opened is not None:
            opened.close()

    def _open(self) -> SocketReceiver:
        if self._receiver is None:
            raise TrialFailed("the end of the path is not open")
        return self._receiver


def _address_towards(peer: str) -> str:
    """The source address that the kernel chooses for this destination; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((peer, ANY_PORT))
        except OSError as error:
            raise UnavailableError(
                f"the pod has no route to {peer}: {error.strerror}",
                remedy="both pods need addresses of the cluster's network",
            ) from None
        return str(asking.getsockname()[0])


def _device_of(address: str) -> tuple[str, str]:
    """The name and the MAC address of the device that has an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            with suppress(OSError):
                answer = fcntl.ioctl(asking, SIOCGIFADDR, request)
                if socket.inet_ntoa(answer[20:24]) == address:
                    hardware = fcntl.ioctl(asking, SIOCGIFHWADDR, request)[18:24]
                    return name, ":".join(f"{byte:02x}" for byte in hardware)
    raise UnavailableError(f"the pod has no device with the address {address}")
