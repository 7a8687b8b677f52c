"""Small datagrams through a network: the time of the first answer, the TTL and the source seen.

A listener in one namespace answers each datagram. The prober in another sends until the first
answer arrives. Both use sockets of the kernel, as applications do.
"""

from __future__ import annotations

import secrets
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from switchmark.errors import TrialFailed
from switchmark.host.kernel import namespaces

FIRST_TTL = 64
_IP_RECVTTL = 12
_PAUSE_S = 0.0005  # between two datagrams without an answer
_TOKEN_BYTES = 16


@dataclass(frozen=True, slots=True)
class Arrival:
    """The first datagram that arrived at the listener."""

    source: str  # address
    ttl: int | None


class Listener:
    """A UDP socket in a namespace that answers datagrams with this session's token only."""

    def __init__(self, netns: str, address: str, port: int = 0) -> None:
        self.netns = netns
        self.token = secrets.token_bytes(_TOKEN_BYTES)
        self.first: Arrival | None = None

        def make() -> socket.socket:
            bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            bound.setsockopt(socket.IPPROTO_IP, _IP_RECVTTL, 1)
            bound.bind((address, port))
            return bound

        try:
            self._socket = namespaces.inside(netns, make)
        except OSError as error:
            raise TrialFailed(
                f"no program can listen at {address} in {netns} ({error.strerror})",
                remedy="check that the network gives this address to the device",
            ) from None
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._answer, name="switchmark-probe", daemon=True)
        self._thread.start()

    def forget(self) -> None:
        """Note the source and the TTL of the next datagram."""
        self.first = None

    def close(self) -> None:
        """End the thread. Idempotent."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(1.0)
        self._socket.close()

    def _answer(self) -> None:
        while True:
            try:
                data, ancillary, _, source = self._socket.recvmsg(64, 64)
            except OSError:
                return
            if not data and not ancillary:
                return
            if data != self.token:
                continue
            if self.first is None:
                self.first = Arrival(str(source[0]), _ttl(ancillary))
            with suppress(OSError):
                self._socket.sendto(data, source)


def _ttl(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.IPPROTO_IP, socket.IP_TTL) and len(data) >= 4:
            return int(struct.unpack("i", data[:4])[0])
    return None


def wait_for_answer(
    netns: str, listener: Listener, address: str, timeout_s: float
) -> tuple[float, int]:
    """Send datagrams from a namespace until the listener's answer arrives. Return the seconds until
    then, and the number of datagrams sent. Raises TrialFailed after the timeout."""

    def probe() -> tuple[float, int]:
        begun, sent, problem = time.monotonic(), 0, ""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asking:
            asking.settimeout(_PAUSE_S)
            while (passed_s := time.monotonic() - begun) < timeout_s:
                try:  # there may be no route yet, an unreachable port, or no answer
                    asking.sendto(listener.token, (address, listener.port))
                    sent += 1
                    if asking.recv(64) == listener.token:
                        return time.monotonic() - begun, sent
                except OSError as error:
                    problem = f"; {error.strerror}" if error.strerror else problem
                if sent == 0:
                    time.sleep(_PAUSE_S)
        raise TrialFailed(
            f"no answer from {address} to {netns} within {timeout_s:g} s ({sent} datagrams, "
            f"{passed_s:.1f} s{problem})"
        )

    return namespaces.inside(netns, probe)
