"""The end of a path in a pod on another node, through the agent in the pod (`FarEnd`)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from switchmark.errors import TrialFailed
from switchmark.host.host import Spawned
from switchmark.host.kernel.device_counters import EndCounters
from switchmark.host.network.counted import DeviceCount
from switchmark.host.network.own_end import Arrival, EndFacts
from switchmark.host.programs import UNKNOWN, VERSION
from switchmark.remote.contact import HostLost
from switchmark.remote.host import RemoteHost
from switchmark.remote.site import Site

T = TypeVar("T")

LONGEST_VERSION = 80
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

    def missing(self, programs: Sequence[str]) -> list[str]:
        """See `FarEnd`."""
        kind: Any = list[str]
        missing: list[str] = self._ask(kind, "missing", [list(programs)])
        return missing

    def spawn(self, args: Sequence[str], cores: Sequence[int]) -> Spawned:
        """See `FarEnd`; the program has the rights of the pod."""
        return RemoteHost(self._site.connection).spawn(args, cores=cores)

    def cpu_s(self, pids: Sequence[int]) -> float:
        """See `FarEnd`. Raises TrialFailed if the time is not a number of seconds."""
        seconds = self._site.connection.ask_for(float, "cpu_s", 5.0, pids=list(pids))
        if not 0 <= seconds < math.inf:
            raise TrialFailed(f"{self.label}: the CPU time of the server is {seconds}")
        return seconds

    def is_bound(self, pid: int, protocol: str, port: int) -> bool:
        """See `ProgramPlace`; the pod has one network namespace."""
        del pid
        return self._ask(bool, "is_bound", [protocol, port])

    def version_of(
        self, program: str, options: tuple[str, ...] = ("--version",), says: str = VERSION
    ) -> str:
        """See `ProgramPlace`."""
        done = RemoteHost(self._site.connection).run([program, *options], timeout_s=5, check=False)
        found = re.search(says, done.stdout + done.stderr)
        return found[1][:LONGEST_VERSION] if found else UNKNOWN

    def make_folder(self, parent: Path, name: str) -> Path:
        """See `ProgramPlace`; it is in the folder of the agent's session."""
        del parent
        return self._site.connection.ask_for(Path, "make_folder", 5.0, name=name)

    def write(self, path: Path, text: str) -> None:
        """See `ProgramPlace`."""
        folder, name = path.parent.name, path.name
        self._site.connection.ask("write", 10.0, data=text.encode(), folder=folder, name=name)

    def close(self) -> None:
        """See `OwnEnd`; on a lost pod the agent closes it."""
        with suppress(HostLost):
            self._site.connection.ask("end", 5.0, question="close", arguments=[])

    def _ask(self, kind: type[T], question: str, arguments: Sequence[Any]) -> T:
        return self._site.connection.ask_for(
            kind, "end", 5.0, question=question, arguments=list(arguments)
        )
