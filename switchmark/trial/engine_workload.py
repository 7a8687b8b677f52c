"""Our own engine as client and server of an application, over TCP sockets of the kernel.

The client is an open loop at a set rate: delays count from when a request was due, so that a stall
of the server hides no waiting time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.engine.events import RecordedDelays, TcpResult
from switchmark.engine.process import EngineProcess
from switchmark.engine.tcp import TcpClient, TcpServer, TcpWorkload, failures_of
from switchmark.environment.support.base import Node, patience_with
from switchmark.errors import TrialFailed
from switchmark.instrument.support.base import Job
from switchmark.instrument.support.reading import (
    RoundTrips,
    counts_since,
    merged_round_trips,
)
from switchmark.instrument.support.udp import address, peer_address, peer_tcp_port, tcp_port
from switchmark.instrument.support.workload import WebServer, WorkloadEnd, WorkloadReading
from switchmark.model.trial import Trial

NAMES: dict[str, TcpWorkload] = {
    "tcp-rr": "rr",
    "tcp-crr": "crr",
    "tcp-stream": "stream",
    "http": "http",
}
LARGEST_WRITE_BYTES = 131_072
WRITES_PER_S = 1_000  # writes of a slow paced stream
_STOP_GRACE_S = 5.0
_MS = 1_000_000


@dataclass
class _Ends:
    client: EngineProcess
    server: EngineProcess | None  # None: a web server of another project answers


class EngineWorkload:
    """A `LaunchedWorkload` of two engines, or of one and a web server."""

    def __init__(
        self,
        job: Job,
        nodes: tuple[Node, Node],
        web_server: Callable[[Job], WebServer] | None,
        server_ahead_ns: int = 0,
    ) -> None:
        """`server_ahead_ns`: the lead of the server's clock over that of this host."""
        self._job, self._nodes = job, nodes
        self._ahead_ns = (0, server_ahead_ns)
        trial, name = job.trial, NAMES[job.trial.workload]
        self._web = web_server(job) if web_server is not None else None
        server = None
        if self._web is None:
            request, response = _sizes(trial)
            server = TcpServer(
                workload=name,
                listen=f"{address(job.target)}:{tcp_port(job.target)}",
                interval_s=job.sample_s,
                request_bytes=request,
                response_bytes=response,
            )
        to = f"{peer_address(job.source)}:{peer_tcp_port(job.source)}"  # also of a published port
        self._client = client_of(job, to, path=None if self._web is None else self._web.path)
        self._ends: _Ends | None = None
        self._server = None if server is None else self._spawn(server.arguments(), 1, "tcp-server")

    def wait_ready(self, timeout_s: float) -> None:
        """Return once the server listens."""
        if self._web is not None:
            self._web.wait_ready(timeout_s)
        if self._server is not None:
            self._server.wait_ready(timeout_s)

    def begin(self, duration_s: float) -> None:
        """Start the client, which connects first, and then its trial."""
        if self._ends is None:
            self.prepare(duration_s)
        if self._server is not None:
            self._server.start()
        self._started().client.start()

    def prepare(self, duration_s: float) -> None:
        """See `Preparable`."""
        client = self._spawn(
            [*self._client.arguments(), "--duration", f"{duration_s:g}"], 0, "tcp-client"
        )
        self._ends = _Ends(client, self._server)
        client.wait_ready(_STOP_GRACE_S * 4)

    def running(self) -> bool:
        """Return True while the client runs its trial."""
        client = self._started().client
        if client.has_tcp_result:
            return False
        client.pump(0.0)
        if self._web is not None:
            self._web.check()
        return not client.has_tcp_result

    def finish(self, timeout_s: float) -> WorkloadReading:
        """Return the counts of both ends."""
        ends = self._started()
        sent = ends.client.wait_tcp_result(timeout_s)
        received: TcpResult | None = None
        if ends.server is not None:
            ends.server.request_stop()
            received = ends.server.wait_tcp_result(timeout_s)
        return read(self._job, ends, sent, received, self._web)

    def client_ids(self) -> Sequence[int]:
        """Return the process of the client while it runs."""
        return [] if self._ends is None else self._ends.client.process_ids()

    def server_ids(self) -> Sequence[int]:
        """Return the processes of the server while they run."""
        if self._web is not None:
            return self._web.process_ids()
        return [] if self._server is None else self._server.process_ids()

    def close(self) -> None:
        """End both. Idempotent."""
        for engine in (self._ends.client if self._ends else None, self._server):
            if engine is not None:
                engine.close()
        if self._web is not None:
            self._web.close()

    def _started(self) -> _Ends:
        if self._ends is None:
            raise TrialFailed("the client of the engine was not started")
        return self._ends

    def _spawn(self, args: list[str], end: int, role: str) -> EngineProcess:
        return spawn_end(self._nodes[end], args, role, self._ahead_ns[end])


def spawn_end(node: Node, args: list[str], role: str, ahead_ns: int) -> EngineProcess:
    """Start an engine as one end of a workload. `ahead_ns`: the lead of the node's clock."""
    return EngineProcess(
        spawned=node.spawn_engine(args),
        node=node.spec.name,
        role=role,
        pair=0,
        cores=tuple(node.spec.cores or ()),
        args=args,
        ahead_ns=ahead_ns,
        patience=patience_with(node),
    )


def _sizes(trial: Trial) -> tuple[int | None, int | None]:
    """Return the sizes of requests and responses, which both ends must know."""
    if trial.workload == "tcp-stream":
        return write_bytes(trial), None
    if trial.workload == "http":
        return None, None
    return trial.request_bytes, trial.response_bytes


def write_bytes(trial: Trial) -> int:
    """Return the size of one write of a stream: at a low rate smaller writes, so that the rate of a
    sample is not the number of a few writes."""
    if trial.rate_pps is None:
        return LARGEST_WRITE_BYTES
    return max(1, min(LARGEST_WRITE_BYTES, round(trial.rate_pps / 8 / WRITES_PER_S)))


def client_of(job: Job, at: str, path: str | None) -> TcpClient:
    """Return the command line of the client."""
    trial = job.trial
    stream = trial.workload == "tcp-stream"
    rate = trial.rate_pps
    if rate is not None and stream:
        rate_rps: float | None = rate / 8 / write_bytes(trial)
    else:
        rate_rps = rate
    request, response = _sizes(trial)
    return TcpClient(
        workload=NAMES[trial.workload],
        connect=at,
        connections=trial.tcp_streams if stream else trial.connections,
        rate_rps=rate_rps,
        interval_s=job.sample_s,
        path=path,
        request_bytes=request,
        response_bytes=response,
    )


def read(
    job: Job,
    ends: _Ends,
    sent: TcpResult,
    received: TcpResult | None,
    web: WebServer | None,
) -> WorkloadReading:
    """Return the counts of a run. Raises TrialFailed if no request was completed."""
    stream = job.trial.workload == "tcp-stream"
    failures = failures_of(sent)
    if not sent.totals.completed:
        reason = ", ".join(f"{count} {name}" for name, count in failures.items())
        last = f"; {sent.last_error}" if sent.last_error else ""
        raise TrialFailed(f"no request was completed ({reason or 'no answer'}{last})")
    first = ends.client.tcp_intervals[:1]
    begun_ns = first[0].t_ns - first[0].duration_ns if first else 0
    client_counts = counts_since(
        begun_ns,
        ends.client.tcp_intervals,
        (lambda one: one.sent_bytes) if stream else (lambda one: one.attempted),
    )
    if stream and ends.server is not None:
        done_counts = counts_since(
            begun_ns, ends.server.tcp_intervals, lambda one: one.received_bytes
        )
    else:
        done_counts = counts_since(begun_ns, ends.client.tcp_intervals, lambda one: one.completed)
    forth = received.totals.received_bytes if received is not None else sent.totals.sent_bytes
    server = (
        WorkloadEnd(
            tuple(ends.server.args),
            ends.server.ready.engine_version,
            done_counts,
            received.as_printed() if received is not None else {},
        )
        if ends.server is not None
        else WorkloadEnd(web.command if web else (), web.version if web else "", done_counts)
    )
    reading = WorkloadReading(
        client=WorkloadEnd(
            tuple(ends.client.args),
            ends.client.ready.engine_version,
            client_counts,
            sent.as_printed(),
        ),
        server=server,
        duration_ns=sent.duration_ns,
        sent=sent.totals.sent_bytes if stream else sent.totals.attempted + sent.unsent,
        done=forth if stream else sent.totals.completed,
        payload_forth=forth,
        payload_back=sent.totals.received_bytes,
        round_trips=_trips(sent.latency.from_sent if sent.latency else None),
        from_due=_from_due(sent),
        congestion_control=sent.congestion_control or "",
        failures=failures | ({"unsent": sent.unsent} if sent.unsent else {}),
    )
    reading.check("the engine")
    return reading


def _trips(delays: RecordedDelays | None) -> RoundTrips | None:
    if delays is None or not delays.count:
        return None
    return RoundTrips(
        delays.histogram, delays.min_ns, delays.mean_ns, delays.stdev_ns, delays.max_ns
    )


def _from_due(sent: TcpResult) -> RoundTrips | None:
    """Return the delays from the due time. Requests without an answer are in them, with the time
    that they had waited at the end; their true delay is longer."""
    if sent.latency is None or sent.config.rate_rps is None:
        return None
    parts = [_trips(sent.latency.from_due), _trips(sent.latency.unanswered)]
    return merged_round_trips([part for part in parts if part is not None])
