"""An application on the ports of a deployment: server and client are started and watched, and the
kernel's counts of their connections stand beside their own.

Our own applications have taught and verified the switch before, and have left the ports.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from switchmark.engine.events import CpuUse, EngineCounters
from switchmark.environment.support.base import Node
from switchmark.errors import TrialFailed
from switchmark.host.host import Session
from switchmark.host.kernel.congestion_control import congestion_controls, is_known
from switchmark.instrument.registry import INSTRUMENTS, abilities_for
from switchmark.instrument.support.base import Abilities, Job
from switchmark.instrument.support.nginx import Nginx
from switchmark.instrument.support.workload import (
    LaunchedWorkload,
    Preparable,
    WorkloadReading,
)
from switchmark.model.campaign import sample_s
from switchmark.model.choices import OWN_ENGINE
from switchmark.model.trial import Trial
from switchmark.model.workload import Workload
from switchmark.record import EndCpu, EngineRun, InstrumentNote, Transport
from switchmark.switch.existing import FarEnd
from switchmark.switch.support.base import Switch
from switchmark.trial import tcp_path
from switchmark.trial.cost import ApplicationCpu
from switchmark.trial.engine_datagrams import EngineDatagrams, datagram_bytes
from switchmark.trial.engine_workload import EngineWorkload
from switchmark.trial.instrument_run import (
    GRACE_S,
    ProcessesCpu,
    counters_of_devices,
    engine_run,
    station_of,
)
from switchmark.trial.reconcile import CounterReading
from switchmark.trial.verification import PairEnds
from switchmark.workload.registry import WORKLOADS

_SETTLED_SHARE = 0.4  # share of the run after which the congestion control is read
# Most headers of a packet, without the FCS: Ethernet, IPv4, TCP with all its options.
HEADERS_BYTES = 14 + 20 + 60
_AGREES_SHARE, _AGREES_BYTES = 0.02, 65_536  # control connections, dummy messages, retransmissions


class WorkloadRun:
    """One workload between the two nodes of a pair. `close` may be called at any time."""

    def __init__(
        self,
        session: Session,
        trial: Trial,
        pair: PairEnds,
        nodes: Mapping[str, Node],
        switch: Switch,
    ) -> None:
        self.workload: Workload = WORKLOADS[trial.workload]
        self.name = trial.generator
        abilities = abilities_for(trial.generator, trial.workload)
        assert abilities is not None, "the campaign's rules have checked it"
        self.abilities: Abilities = abilities
        self.begun_ns = 0  # CLOCK_MONOTONIC at the command to begin
        self.reading: WorkloadReading | None = None
        self._session, self._trial, self._pair = session, trial, pair
        self._nodes = (nodes[pair.a.node], nodes[pair.b.node])
        self._far_ends = tcp_path.far_ends(switch)
        self._devices = tcp_path.path_devices(self._nodes, switch)
        self._offload_note = tcp_path.set_offloads(trial, switch, self._devices)
        self._offloads = tcp_path.offloads_on(self._devices)
        self._known = congestion_controls()
        self._seen: dict[str, str] = {}
        if trial.congestion_control:
            tcp_path.set_congestion_control(session, trial.congestion_control, self._nodes)
        job = Job(
            trial=trial,
            source=station_of(pair.a.node, self._nodes[0], abilities, session.run_dir),
            target=station_of(pair.b.node, self._nodes[1], abilities, session.run_dir, self._far),
            folder=session.run_dir,
            sample_s=max(
                abilities.shortest_sample_s or 0.0, sample_s(trial.interval_s, trial.duration_s)
            ),
        )
        self._launched = self._launch(job)
        self._used = (ProcessesCpu(), ProcessesCpu())  # client, server
        self._far_pids: Sequence[int] = ()  # the server in a pod on another node
        self._far_cpu_s = 0.0  # before the client begins; after its end: used in the run
        self._before = tuple(map(tcp_path.read_end, self._nodes, self._far_ends))
        self._after = self._before
        self._read_at = 0.0  # when the congestion control is read

    def _launch(self, job: Job) -> LaunchedWorkload:
        if self.name != OWN_ENGINE:
            return INSTRUMENTS[self.name]().launch_workload(job)
        if self.workload.protocol == "udp":
            return EngineDatagrams(job, self._nodes, self._pair.b.ahead_ns)
        web_server = Nginx if self.workload.name == "http" else None
        return EngineWorkload(job, self._nodes, web_server, self._pair.b.ahead_ns)

    @property
    def _far(self) -> FarEnd | None:
        """The pod on another node in which the server is; None if it is on this host."""
        return self._far_ends[1]

    @property
    def pair(self) -> int:
        """The number of its pair."""
        return self._pair.a.pair

    def wait_ready(self, timeout_s: float) -> None:
        """Return once the server listens. Raises `TrialFailed`."""
        self._launched.wait_ready(timeout_s)

    def prepare(self) -> None:
        """Do what can be done before the command to begin, so that several pairs begin together."""
        if isinstance(self._launched, Preparable):
            self._launched.prepare(self._trial.duration_s)
        # CPU time counts from here, without the start of programs and of their containers. To find
        # the processes in containers takes some time.
        self._look()

    def begin(self) -> None:
        """Start the client."""
        self._before = tuple(map(tcp_path.read_end, self._nodes, self._far_ends))
        self._look()
        if self._far is not None and self.abilities.servers:
            self._far_pids = self._launched.server_ids()
            self._far_cpu_s = self._far.cpu_s(self._far_pids)
        self.begun_ns = time.monotonic_ns()
        self._launched.begin(self._trial.duration_s)
        self._read_at = time.monotonic() + _SETTLED_SHARE * self._trial.duration_s

    def running(self) -> bool:
        """Return True while the client runs; observe it. Raises `TrialFailed`."""
        if not self._launched.running():
            return False
        self._look()
        duration_s = self._trial.duration_s
        if time.monotonic_ns() - self.begun_ns > (duration_s + GRACE_S) * 1e9:
            raise TrialFailed(f"{self.name} did not end within {duration_s + GRACE_S:.0f} s")
        if self.workload.protocol == "tcp" and time.monotonic() > self._read_at:
            self._read_at = self._read_congestion_control()
        return True

    def finish(self) -> WorkloadReading:
        """Return the counts after the run. Raises `TrialFailed`."""
        self._look()
        self.reading = self._launched.finish(GRACE_S)
        if self._far is not None and self._far_pids:
            self._far_cpu_s = self._far.cpu_s(self._far_pids) - self._far_cpu_s
        self._after = tuple(map(tcp_path.read_end, self._nodes, self._far_ends))
        name = self.reading.server.report.get("congestion_control")
        if self._far is not None and isinstance(name, str) and is_known(name):
            self._seen[self._nodes[1].spec.name] = name
        return self.reading

    def _look(self) -> None:
        """Read the CPU time of client and server. The time of a server on another node is read
        there: a process here may have the same number."""
        client, server = self._used
        client.look(self._launched.client_ids())
        if self._far is None:
            server.look(self._launched.server_ids())

    def _read_congestion_control(self) -> float:
        """Read the congestion control of the ends on this host; return the time of the next
        reading."""
        here = self._nodes[:1] if self._far is not None else self._nodes
        for node, is_client in zip(here, (True, False), strict=False):
            if name := tcp_path.seen_congestion_control(
                self._session, node, self._known, is_client=is_client
            ):
                self._seen[node.spec.name] = name
        missing = len(self._seen) < len(here)
        return time.monotonic() + (0.2 if missing else float("inf"))

    def cpu(self) -> ApplicationCpu:
        """CPU time of its programs on this host since the start of the client; for a process
        that has ended, up to its last reading."""
        client, server = (used.of(time.monotonic_ns() - self.begun_ns) for used in self._used)
        if self._far is not None:
            return client
        return ApplicationCpu(
            client.wall_ns,
            client.cpu_ns + server.cpu_ns,
            run_delay_ns=max(client.run_delay_ns, server.run_delay_ns),
        )

    def far_cpu(self) -> ApplicationCpu | None:
        """CPU time of a server on another node over its run, as the engine measured it or as the
        kernel there counts it for other programs; None if the server is on this host."""
        if self._far is None or self.reading is None:
            return None
        if self._far_pids:
            return ApplicationCpu(self.reading.duration_ns, max(0, round(self._far_cpu_s * 1e9)))
        used = CpuUse.model_validate(self.reading.server.report["cpu"])
        return ApplicationCpu(used.wall_ns, used.cpu_ns, used.system_ns, used.run_delay_ns)

    def counters(self) -> dict[str, EngineCounters]:
        """Frames that passed the devices of both ends, by the kernel's counts."""
        names = (self._pair.a.node, self._pair.b.node)
        pairs = zip(names, self._nodes, strict=True)
        return {
            name: counters_of_devices(*(node.device_frames() or (0, 0))) for name, node in pairs
        }

    @property
    def datagram_bytes(self) -> int:
        """Payload of each datagram of the client."""
        return datagram_bytes(self._trial)

    @property
    def passed_packets(self) -> int:
        """Packets that the switch forwarded, both ways."""
        pairs = zip(self._before, self._after, strict=True)
        return sum(after.rx_packets - before.rx_packets for before, after in pairs)

    def transport(self, switch_s: float | None) -> Transport:
        """Return the record's account of the connections. `switch_s` is the CPU time of the
        switch's processes."""
        assert self.reading is not None, "it has run"
        (client, server), names = self._changes(), [node.spec.name for node in self._nodes]
        ends = dict(zip(names, (client, server), strict=True))
        payload = (self.reading.payload_forth or 0) + self.reading.payload_back
        requests = None if self.workload.is_stream else self.reading.done

        def counted(name: str) -> dict[str, int]:
            return {node: max(0, counts.get(name, 0)) for node, counts in ends.items()}

        wall_ns = max(1, time.monotonic_ns() - self.begun_ns)
        used_s = [used.of(wall_ns).cpu_ns / 1e9 for used in self._used]
        if (far_cpu := self.far_cpu()) is not None:
            used_s[1] = far_cpu.cpu_ns / 1e9
        return Transport(
            protocol=self.workload.protocol,
            congestion_control=dict(self._seen),
            retransmitted_segments=counted("Tcp.RetransSegs"),
            checksum_errors={
                node: max(0, counts.get("Tcp.InCsumErrors", 0) + counts.get("Udp.InCsumErrors", 0))
                for node, counts in ends.items()
            },
            listen_overflows=counted("TcpExt.ListenOverflows"),
            datagrams_dropped=counted("Udp.RcvbufErrors"),
            time_wait={
                name: after.protocol.get("TimeWait", 0)
                for name, after in zip(names, self._after, strict=True)
            },
            payload_forth=self.reading.payload_forth or 0,
            payload_back=self.reading.payload_back,
            requests_sent=None if self.workload.is_stream else self.reading.sent,
            requests_answered=requests,
            packets_forth=server["rx_packets"],
            bytes_forth=server["rx_bytes"],
            packets_back=client["rx_packets"],
            bytes_back=client["rx_bytes"],
            offloads=self._offloads,
            offload_note=self._offload_note,
            unknown=[] if self._far is None else self._unknown(self._far),
            client_cpu=end_cpu(used_s[0], payload, requests),
            server_cpu=end_cpu(used_s[1], payload, requests),
            switch_cpu=None if switch_s is None else end_cpu(switch_s, payload, requests),
        )

    def _unknown(self, far: FarEnd) -> list[str]:
        """Return the facts that the bench cannot read, because the server is on another node."""
        server = self._nodes[1].spec.name
        device = tcp_path.end_device(self._nodes[1], far)
        unknown = [
            f"devices of the path on the other node and between the nodes, except {device} of "
            f"{far.label}: their offloads, counters and MTU"
        ]
        if self.workload.protocol == "tcp":
            unknown.append("entries of conntrack that the connections left on the other node")
            if server not in self._seen:
                unknown.append(f"congestion control of the server in {far.label}")
        return unknown

    def _changes(self) -> list[dict[str, int]]:
        """Return the changes of the counters of client and server over the traffic."""
        return [
            {name: value - before.protocol.get(name, 0) for name, value in after.protocol.items()}
            | {
                "rx_bytes": max(0, after.rx_bytes - before.rx_bytes),
                "rx_packets": max(0, after.rx_packets - before.rx_packets),
            }
            for before, after in zip(self._before, self._after, strict=True)
        ]

    @property
    def agrees(self) -> bool:
        """Return True if the payload that the program counted as read came to the devices of both
        ends, with little else than headers."""
        assert self.reading is not None, "it has run"
        client, server = self._changes()
        forth, back = self.reading.payload_forth, self.reading.payload_back
        return _agree(forth, server) and _agree(back, client)

    @property
    def datagrams_dropped(self) -> int:
        """Datagrams that arrived at either end, and found the socket full."""
        return sum(max(0, end.get("Udp.RcvbufErrors", 0)) for end in self._changes())

    def note(self, before: CounterReading, after: CounterReading) -> InstrumentNote | None:
        """The record's account of a foreign program, with the kernel's counts between two
        readings."""
        assert self.reading is not None, "it has run"
        if self.name == OWN_ENGINE:
            return None
        first, last = before.applications, after.applications
        a, b = self._pair.a.node, self._pair.b.node
        return InstrumentNote(
            name=self.name,
            version=self.reading.client.version,
            cannot_know=list(self.abilities.cannot_know),
            sent_frames=None,
            received_frames=None,
            device_sent_frames=last[a].tx_offered - first[a].tx_offered,
            device_received_frames=last[b].rx_other - first[b].rx_other,
            agrees=self.agrees,
        )

    def as_runs(self) -> list[EngineRun]:
        """Both ends, as the record keeps applications, with their counts. Times are
        those of the program, from the start of the client."""
        if self.reading is None:
            return [self._pair.a.as_run(), self._pair.b.as_run()]
        stream = self.workload.is_stream
        client, server = ("written_bytes", "read_bytes") if stream else ("requests", "answers")
        return [
            engine_run(self._pair.a.node, "client", self.reading.client, self.begun_ns, client),
            engine_run(self._pair.b.node, "server", self.reading.server, self.begun_ns, server),
        ]

    def close(self) -> None:
        """End its programs. Idempotent."""
        self._launched.close()


def _agree(payload: int | None, counted: Mapping[str, int]) -> bool:
    """Return True if so much payload fits into the bytes that a device received, and these hold
    little else."""
    if payload is None:
        return True
    arrived = counted["rx_bytes"]
    if counted.get("Udp.RcvbufErrors"):  # they arrived, and the program has not counted them
        return payload <= arrived
    most = payload * (1 + _AGREES_SHARE) + _AGREES_BYTES + HEADERS_BYTES * counted["rx_packets"]
    return payload <= arrived <= most


def end_cpu(seconds: float, payload_bytes: int, requests: int | None) -> EndCpu:
    """Return the CPU time of a part, for a gigabit of payload and for a request."""
    gigabits = payload_bytes * 8 / 1e9
    return EndCpu(
        seconds=seconds,
        per_gigabit_s=seconds / gigabits if gigabits else None,
        per_request_us=seconds * 1e6 / requests if requests else None,
    )
