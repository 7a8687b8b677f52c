"""Watches the round-trip time of a network that others use, and ends a trial that slows it down.

Ten datagrams a second go from one end to the other and back, beside the load. The first ones,
before the load, give the usual time.
"""

from __future__ import annotations

import secrets
import select
import socket
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from switchmark.errors import TrialFailed
from switchmark.host.network.handle import NamespaceHandle
from switchmark.host.network.probe import free_port

INTERVAL_S = 0.1
USUAL, RECENT = 20, 10  # numbers of probes before and during the load
LOST_S = 1.0  # time that counts for a probe without an answer
_STOP_S = 0.5


class RoundTripWatch:
    """Probes between two ends, from `begin` to `close`."""

    def __init__(
        self,
        near: tuple[NamespaceHandle, str],
        far: tuple[NamespaceHandle, str],
        factor: float,
    ) -> None:
        self._factor = factor
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._ends = threading.Event()
        self._answering = _bound(*far)
        try:
            self._asking = _bound(*near)
        except BaseException:
            self._answering.close()
            raise
        self._asking.connect(self._answering.getsockname())
        self._threads = [
            threading.Thread(target=action, name="switchmark-watch", daemon=True)
            for action in (self._answer, self._ask)
        ]
        self.usual_s = 0.0

    def begin(self) -> None:
        """Measure the usual time, and go on in the background. Raises TrialFailed if no probe is
        answered."""
        self._threads[0].start()
        times = [self._probe() for _ in range(USUAL)]
        self.usual_s = statistics.median(times)
        if self.usual_s >= LOST_S:
            raise TrialFailed("abort_if: the probes of the network are not answered")
        self._threads[1].start()

    def check(self) -> None:
        """Raise TrialFailed if the round-trip time has grown by the factor."""
        problem = slowed(list(self._recent), self.usual_s, self._factor)
        if problem:
            raise TrialFailed(
                f"abort_if: {problem}", remedy="lower the rate; others use this network"
            )

    def close(self) -> None:
        """End the probes. Idempotent."""
        self._ends.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._asking.close()
        self._answering.close()

    def _ask(self) -> None:
        while not self._ends.is_set():
            self._recent.append(self._probe())

    def _probe(self) -> float:
        """Send a datagram and return the seconds until its answer, at the pace of ten a second."""
        token = secrets.token_bytes(16)
        begun = time.monotonic()
        seconds = LOST_S
        with suppress(OSError):
            self._asking.send(token)
            while (left := begun + LOST_S - time.monotonic()) > 0:
                if not select.select([self._asking], [], [], left)[0]:
                    break
                if self._asking.recv(64) == token:
                    seconds = time.monotonic() - begun
                    break
        self._ends.wait(max(0.0, begun + INTERVAL_S - time.monotonic()))
        return seconds

    def _answer(self) -> None:
        while not self._ends.is_set():
            with suppress(OSError, ValueError):  # the socket may be closed
                if select.select([self._answering], [], [], _STOP_S)[0]:
                    data, source = self._answering.recvfrom(64)
                    self._answering.sendto(data, source)


def slowed(recent: list[float], usual_s: float, factor: float) -> str:
    """Return how the round-trip time has grown; empty if it has not. The median decides, so that
    single late probes do not."""
    if len(recent) < RECENT:
        return ""
    now = statistics.median(recent)
    if now <= factor * usual_s:
        return ""
    if now >= LOST_S:
        return f"most of the last {RECENT} probes of the network have no answer"
    return (
        f"the median round trip of the network grew from {usual_s * 1e6:.0f} to "
        f"{now * 1e6:.0f} us, above {factor:g} times"
    )


def _bound(handle: NamespaceHandle, address: str) -> socket.socket:
    port = free_port(handle, address)

    def bind() -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            bound.bind((address, port))
        except BaseException:
            bound.close()
            raise
        return bound

    action: Callable[[], socket.socket] = bind
    return handle.inside(action)
