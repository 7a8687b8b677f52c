"""Our own engine as client and server of a workload over UDP sockets of the kernel.

Each datagram has a number, so that losses are counted exactly, and is sent by the schedule, whether
or not the last answer has come. These are the engine's roles for frames, on sockets.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.engine.arguments import engine_args
from switchmark.engine.events import Result, TimedDelays
from switchmark.engine.loads import load
from switchmark.engine.process import EngineProcess
from switchmark.environment.support.base import Node
from switchmark.errors import TrialFailed
from switchmark.instrument.support.base import Job
from switchmark.instrument.support.reading import RoundTrips, counts_since
from switchmark.instrument.support.udp import frame_bytes
from switchmark.instrument.support.workload import WorkloadEnd, WorkloadReading
from switchmark.model.choices import OWN_ENGINE, Idle
from switchmark.model.io import Io
from switchmark.model.trial import Trial
from switchmark.model.workload import FRAMES
from switchmark.trial.engine_workload import spawn_end

READY_S = 20.0
CATCH_UP_US = 1_000_000  # a late datagram is sent late, as an application does


class EngineDatagrams:
    """A `LaunchedWorkload` of two engines."""

    def __init__(self, job: Job, nodes: tuple[Node, Node], server_ahead_ns: int = 0) -> None:
        """`server_ahead_ns`: the lead of the server's clock over that of this host."""
        self._job, self._nodes = job, nodes
        self._ahead_ns = (0, server_ahead_ns)
        self._is_stream = job.trial.workload == "udp-stream"
        self._client: EngineProcess | None = None
        self._server = self._spawn("receiver" if self._is_stream else "server", 1, [])

    def wait_ready(self, timeout_s: float) -> None:
        """Return once the server receives."""
        self._server.wait_ready(timeout_s)

    def begin(self, duration_s: float) -> None:
        """Start the trial of the server, and then that of the client."""
        if self._client is None:
            self.prepare(duration_s)
        self._server.start()
        self._started().start()

    def prepare(self, duration_s: float) -> None:
        """See `Preparable`."""
        role = "sender" if self._is_stream else "client"
        self._client = self._spawn(role, 0, ["--duration", f"{duration_s:g}"])
        self._client.wait_ready(READY_S)

    def running(self) -> bool:
        """Return True while the client runs its trial."""
        client = self._started()
        self._server.pump(0.0)
        if not client.has_result:
            client.pump(0.0)
        return not client.has_result

    def finish(self, timeout_s: float) -> WorkloadReading:
        """Return the counts of both ends."""
        client = self._started()
        sent = client.wait_result(timeout_s)
        self._server.request_stop(sent.totals.tx_offered)
        received = self._server.wait_result(timeout_s)
        for engine in (client, self._server):
            if engine.faults:
                raise TrialFailed(engine.faults[0])
        return read(self._job, client, self._server, sent, received)

    def client_ids(self) -> Sequence[int]:
        """Return the process of the client while it runs."""
        return [] if self._client is None else self._client.process_ids()

    def server_ids(self) -> Sequence[int]:
        """Return the process of the server while it runs."""
        return self._server.process_ids()

    def close(self) -> None:
        """End both. Idempotent."""
        for engine in (self._client, self._server):
            if engine is not None:
                engine.close()

    def _started(self) -> EngineProcess:
        if self._client is None:
            raise TrialFailed("the client of the engine was not started")
        return self._client

    def _spawn(self, role: str, end: int, more: list[str]) -> EngineProcess:
        node = self._nodes[end]
        trial = as_frames(self._job.trial)
        args = engine_args(trial, node.spec.port, role, 0, end, Idle.BLOCK.value, CATCH_UP_US)
        if role == "client":
            args += ["--catch-up-us", str(CATCH_UP_US)]
        return spawn_end(node, [*args, *more], role, self._ahead_ns[end])


def datagram_bytes(trial: Trial) -> int:
    """Return the payload of each datagram of the client."""
    return trial.datagram_bytes if trial.workload == "udp-stream" else trial.request_bytes


def as_frames(trial: Trial) -> Trial:
    """Return the trial of frames that sends the datagrams of this trial."""
    size, rate = datagram_bytes(trial), trial.rate_pps
    if rate is not None and trial.workload == "udp-stream":
        rate = max(1, round(rate / 8 / size))
    return trial.model_copy(
        update={
            "workload": FRAMES,
            "generator": OWN_ENGINE,
            "io": Io.UDP_MMSG,
            "packet_size_bytes": frame_bytes(size),
            "rate_pps": rate,
            # At a set rate each datagram leaves when it is due.
            "burst": 1 if rate is not None else trial.burst,
        }
    )


def read(
    job: Job, client: EngineProcess, server: EngineProcess, sent: Result, received: Result
) -> WorkloadReading:
    """Return the counts of a run. Raises TrialFailed if they contradict each other."""
    trial = job.trial
    stream, size = trial.workload == "udp-stream", datagram_bytes(trial)
    each = size if stream else 1
    whole = load("the stream" if stream else "the answers", sent, received if stream else sent)
    first = client.intervals[:1]
    begun_ns = first[0].t_ns - first[0].duration_ns if first else client.started_ns
    done_by = server if stream else client
    reading = WorkloadReading(
        client=WorkloadEnd(
            tuple(client.args),
            client.ready.engine_version,
            counts_since(begun_ns, client.intervals, lambda one: each * one.tx_offered),
            sent.as_printed(),
        ),
        server=WorkloadEnd(
            tuple(server.args),
            server.ready.engine_version,
            counts_since(begun_ns, done_by.intervals, lambda one: each * one.rx_frames),
            received.as_printed(),
        ),
        duration_ns=sent.duration_ns,
        sent=each * whole.offered_frames,
        done=each * whole.unique_frames,
        payload_forth=size * received.totals.rx_frames,
        payload_back=0 if stream else size * sent.totals.rx_frames,
        round_trips=_trips(sent.latency),
        from_due=_due(sent.latency) if trial.rate_pps is not None else None,
    )
    reading.check("the engine")
    return reading


def _trips(timed: TimedDelays | None) -> RoundTrips | None:
    if timed is None or not timed.count:
        return None
    return RoundTrips(timed.from_actual, timed.min_ns, timed.mean_ns, timed.stdev_ns, timed.max_ns)


def _due(timed: TimedDelays | None) -> RoundTrips | None:
    if timed is None or not timed.count:
        return None
    due = timed.intended
    return RoundTrips(timed.from_intended, due.min_ns, due.mean_ns, due.stdev_ns, due.max_ns)
