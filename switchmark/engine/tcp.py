"""Command lines of the engine's TCP roles, and figures of their results.

`TcpServer` and `TcpClient` are the two ends of a workload. A caller starts `arguments()` behind the
name of the engine's program, or in an `EngineProcess`, which reads the events: `wait_ready`,
`start`, `wait_tcp_result`, `tcp_intervals`. The server must run before the client starts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from switchmark.engine.events import TcpResult
from switchmark.statistics.histogram import Histogram

TcpWorkload = Literal["rr", "crr", "stream", "http"]
FAILURES = (
    "refused",
    "reset",
    "timed_out",
    "closed",
    "unreachable",
    "malformed",
    "failed_otherwise",
)
_OPTIONS = {  # names of options that differ from those of the fields
    "request_bytes": "request-size",
    "response_bytes": "response-size",
    "rate_rps": "rate",
    "interval_s": "interval",
    "timeout_s": "timeout",
    "spin_us": "server-spin-us",
}


@dataclass(frozen=True, kw_only=True)
class _TcpEnd:
    workload: TcpWorkload = "rr"
    connections: int | None = None  # None: the engine's default
    request_bytes: int | None = None
    response_bytes: int | None = None
    congestion_control: str | None = None  # None: that of the route
    interval_s: float | None = None
    idle: str | None = None
    core: int | None = None

    def _arguments(self, role: str) -> list[str]:
        arguments = [role, "--session"]
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                option = _OPTIONS.get(field.name, field.name.replace("_", "-"))
                arguments += [
                    f"--{option}",
                    f"{value:.12g}" if isinstance(value, float) else str(value),
                ]
        return arguments


@dataclass(frozen=True, kw_only=True)
class TcpServer(_TcpEnd):
    """The end that listens: its `ready` event says that clients can connect."""

    listen: str  # IP:PORT or [IP]:PORT
    spin_us: int | None = None  # it computes for this time before each response

    def arguments(self) -> list[str]:
        """Return its command line, without the name of the program."""
        return self._arguments("tcp-server")


@dataclass(frozen=True, kw_only=True)
class TcpClient(_TcpEnd):
    """The end that connects and measures."""

    connect: str  # address of the server
    rate_rps: float | None = None  # requests a second; None: closed loop
    schedule: str | None = None
    timeout_s: float | None = None
    path: str | None = None  # HTTP only

    def arguments(self) -> list[str]:
        """Return its command line, without the name of the program."""
        return self._arguments("tcp-client")


def failures_of(result: TcpResult) -> dict[str, int]:
    """Return the number of failed requests by reason; reasons that did not occur are left out."""
    return {name: count for name in FAILURES if (count := getattr(result.totals, name))}


def latency_from_due(result: TcpResult) -> Histogram | None:
    """Return the time of every request that was due, from that moment on.

    Requests without an answer are in it with the time that they had waited at the end, so that a
    stalled or overloaded server is not hidden; their true time is longer. None at rate max, and of
    a server."""
    latency = result.latency
    if latency is None or result.config.rate_rps is None:
        return None
    parts = [part for part in (latency.from_due, latency.unanswered) if part is not None]
    return Histogram.merged([part.histogram for part in parts]) if parts else None


def goodput_bps(received: TcpResult) -> float:
    """Return the payload bits per second that this end received in its trial."""
    return 8e9 * received.totals.received_bytes / received.duration_ns
