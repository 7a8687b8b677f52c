"""The counts of a program that runs an application, and the limits of such programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from switchmark.errors import ContradictoryCounts
from switchmark.instrument.support.base import Abilities
from switchmark.instrument.support.reading import CountedInterval, RoundTrips
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.ports import PortKind
from switchmark.model.workload import Workload

# Parameters that the bench sets for every workload, whatever the program.
COMMON_FIELDS = frozenset({
    "dimension", "pairs", "packet_size_bytes", "rate_pps", "burst", "scenario", "vnf", "generator",
    "workload", "offload", "congestion_control", "location",
})  # fmt: skip
# Environments whose nodes have devices and sockets in a network namespace of the host's kernel.
ENVIRONMENTS = ("netns", "lxc", "docker")
DEVICE_PORTS = dict.fromkeys((PortKind.VETH, PortKind.MACVLAN, PortKind.ATTACHMENT), Io.UDP)


@dataclass(frozen=True, slots=True)
class WorkloadEnd:
    """One end: its command line, and its output."""

    command: tuple[str, ...]
    version: str
    # Amounts by interval, by the clock of the end; 0 is when its run began. Bytes of payload that a
    # client has written or a server has read; or requests sent, or answered.
    counts: tuple[CountedInterval, ...] = ()
    report: dict[str, Any] = field(default_factory=dict)  # as it printed it, for the record


@dataclass(frozen=True, slots=True)
class WorkloadReading:
    """The counts of one run of a workload. Amounts are bytes of payload of a stream, otherwise
    requests."""

    client: WorkloadEnd  # its counts: written, or sent
    server: WorkloadEnd  # its counts: read, or answered (also if the client counts the answers)
    duration_ns: int  # for so long the client sent
    sent: int  # amount, in the whole run
    done: int  # read by the server, or answered
    payload_forth: int | None  # bytes, client to server; None: the program does not report it
    payload_back: int
    round_trips: RoundTrips | None = None  # from the moment when the request was sent
    from_due: RoundTrips | None = None  # from the moment when it was due, also without an answer
    failures: dict[str, int] = field(default_factory=dict)  # requests without an answer, by reason
    warm_up: str = ""  # the part that the program leaves out of `counts`; empty: nothing
    congestion_control: str = ""  # as the program reports it

    def check(self, name: str) -> None:
        """Raise ContradictoryCounts if more was done than sent."""
        if self.done > self.sent:
            raise ContradictoryCounts(
                f"counts of {name} contradict each other: {self.done} arrived, {self.sent} sent"
            )


class LaunchedWorkload(Protocol):
    """A server that has been started, and its client. `close` may be called at any time."""

    def wait_ready(self, timeout_s: float) -> None:
        """Return once the server listens. Raises TrialFailed."""
        ...

    def begin(self, duration_s: float) -> None:
        """Start the client. Raises TrialFailed."""
        ...

    def running(self) -> bool:
        """Return True while the client runs. Raises TrialFailed if a program has died."""
        ...

    def finish(self, timeout_s: float) -> WorkloadReading:
        """Return the counts after the run. Raises TrialFailed with one line."""
        ...

    def client_ids(self) -> Sequence[int]:
        """Return the processes of the client that still run."""
        ...

    def server_ids(self) -> Sequence[int]:
        """Return the processes of the server that still run."""
        ...

    def close(self) -> None:
        """End all programs. Idempotent."""
        ...


@runtime_checkable
class Preparable(Protocol):
    """A `LaunchedWorkload` whose client can be started before the command to begin."""

    def prepare(self, duration_s: float) -> None:
        """Start the client and let it connect. Raises TrialFailed."""
        ...


class ApplicationServer(Protocol):
    """A server of another project that has been started at the target."""

    command: tuple[str, ...]
    version: str

    def wait_ready(self, timeout_s: float) -> None:
        """Return once it answers requests. Raises TrialFailed."""
        ...

    def check(self) -> None:
        """Raise TrialFailed if it has ended."""
        ...

    def process_ids(self) -> Sequence[int]:
        """Return its processes that still run."""
        ...

    def close(self) -> None:
        """End it. Idempotent."""
        ...


class WebServer(ApplicationServer, Protocol):
    """A server of HTTP."""

    path: str  # the path that a request names


def workload_abilities(
    workload: Workload,
    description: str,
    cannot_know: Sequence[str],
    *,
    fields: Sequence[str] = (),
    latency: bool = False,
    throughput: bool = True,
    paces: bool = True,
    saturates: bool = True,
    whole_seconds: bool = False,
    shortest_sample_s: float = 0.1,
    most_rate: int | None = None,
    servers: tuple[str, ...] = (),
) -> Abilities:
    """Return the abilities of a program that runs this workload. `fields` are the parameters that
    it reads beyond the common ones."""
    measured = {Dimension.THROUGHPUT: throughput, Dimension.LATENCY: latency}
    return Abilities(
        description=description,
        ports=DEVICE_PORTS,
        cannot_know=tuple(cannot_know),
        largest_burst=32,  # the default; a workload has no bursts
        dimensions=tuple(one for one, has_it in measured.items() if has_it),
        environments=ENVIRONMENTS,
        paces=paces,
        saturates=saturates,
        shortest_sample_s=shortest_sample_s,
        whole_seconds=whole_seconds,
        most_rate_pps=most_rate,
        linux_capabilities=dict.fromkeys(DEVICE_PORTS, ()),
        writes=None,  # the file-system sandbox also refuses TCP ports
        servers=servers,
        fields=COMMON_FIELDS | frozenset(fields) & workload.reads,
    )
