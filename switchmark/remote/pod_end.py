"""The end of a path in a pod on another node, through the agent in the pod (`FarEnd`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from switchmark.errors import TrialFailed
from switchmark.host.kernel.device_counters import EndCounters
from switchmark.host.network.counted import DeviceCount
from switchmark.host.network.own_end import Arrival, EndFacts
from switchmark.remote.contact import HostLost
from switchmark.remote.site import Site

T = TypeVar("T")

UNLIMITED = "Tcp.MaxConn"  # -1 without a limit


class PodEnd:
    """The second end of a path; it opens the site when it is needed."""

    def __init__(self, site: Site) -> None:
        self.label = str(site.testbed.far)
        self._site = site

    def open(self, peer: str) -> EndFacts:
        """See `OwnEnd`."""
        self._site.open()
        return self._ask(EndFacts, "open", [peer])

    def received(self, token: bytes) -> tuple[tuple[str, int], int | None] | None:
        """See `Receiver`."""
        kind: Any = Arrival | None
        arrived: Arrival | None = self._ask(kind, "received", [token.hex()])
        return None if arrived is None else ((arrived.address, arrived.port), arrived.ttl)

    def received_size(self, size: int) -> bool:
        """See `Receiver`."""
        return self._ask(bool, "received_size", [size])

    def answer(self, token: bytes, source: tuple[str, int]) -> None:
        """See `Receiver`."""
        self._site.connection.ask(
            "end", 5.0, question="answer", arguments=[token.hex(), source[0], source[1]]
        )

    def counts(self, device: str) -> DeviceCount:
        """The packets and bytes of a device of the pod, both ways together."""
        kind: Any = tuple[int, int]
        packets, octets = self._ask(kind, "counts", [device])
        return DeviceCount(packets, octets)

    def end_counters(self, device: str) -> EndCounters:
        """See `OwnEnd`. Raises TrialFailed if a counter is negative."""
        counters = self._ask(EndCounters, "end_counters", [device])
        protocol = {name: value for name, value in counters.protocol.items() if name != UNLIMITED}
        least = min(*protocol.values(), counters.rx_bytes, counters.rx_packets)
        if least < 0:
            raise TrialFailed(f"{self.label}: a counter of {device} or of its protocols is {least}")
        return replace(counters, protocol=protocol)

    def offloads(self, device: str) -> dict[str, bool]:
        """See `OwnEnd`."""
        kind: Any = dict[str, bool]
        offloads: dict[str, bool] = self._ask(kind, "offloads", [device])
        return offloads

    def close(self) -> None:
        """See `OwnEnd`; on a lost pod the agent closes it."""
        with suppress(HostLost):
            self._site.connection.ask("end", 5.0, question="close", arguments=[])

    def _ask(self, kind: type[T], question: str, arguments: Sequence[Any]) -> T:
        return self._site.connection.ask_for(
            kind, "end", 5.0, question=question, arguments=list(arguments)
        )
