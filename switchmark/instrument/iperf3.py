"""`iperf3`: datagrams of one size from a UDP socket, one system call each (https://iperf.fr).

It counts payload: of an Ethernet frame with FCS, 46 bytes are headers of Ethernet, IPv4 and UDP,
and the FCS. Its datagrams have numbers, by which the server detects lost and late datagrams; a copy
counts as late, and hides a loss. Its control connection (TCP, a few tens of frames) also crosses
the switch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from switchmark.errors import Refusal, TrialFailed
from switchmark.instrument.support import iperf3_tcp
from switchmark.instrument.support.base import Abilities, Instrument, Job
from switchmark.instrument.support.client_server import ClientServer
from switchmark.instrument.support.program import ProgramEnd, find, one_line
from switchmark.instrument.support.reading import CountedInterval, EndReading, Reading, check_counts
from switchmark.instrument.support.udp import (
    address,
    payload_bytes,
    peer_address,
    peer_udp_port,
    udp_port,
)
from switchmark.instrument.support.workload import (
    WorkloadEnd,
    WorkloadReading,
    workload_abilities,
)
from switchmark.language.values import NS_PER_S
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Availability
from switchmark.model.io import Io
from switchmark.model.ports import PortKind
from switchmark.workload import tcp_stream, udp_stream

MOST_DURATION_S = 86_400
LONGEST_S, MOST_PACKETS = 2 * MOST_DURATION_S, 1 << 50  # larger values are not counts of a run
R = TypeVar("R")  # Reading, or WorkloadReading


class Iperf3(Instrument):
    """Client to server, one stream."""

    name = "iperf3"
    abilities = Abilities(
        description="UDP datagrams from one socket, with one system call for each",
        ports={PortKind.VETH: Io.UDP},
        cannot_know=(
            "copies (a copy counts as a late datagram and hides a lost one)",
            "how late reordered frames were",
            "frames of other programs",
            "the due time of each datagram, and how late it was sent",
            "the frames that its port refused",
        ),
        largest_burst=1000,
        whole_seconds=True,
        own_frames=400,
        linux_capabilities={PortKind.VETH: ()},
    )

    def availability(self) -> Availability:
        """Available if the program is installed."""
        return find("iperf3", "iperf3")

    def refusals(self, sweep: Sweep) -> Iterator[Refusal]:
        """Refuse a run above a day, its longest."""
        if max(sweep.duration_s) > MOST_DURATION_S:
            yield Refusal("iperf3 runs for 86400 s at most", "use a shorter duration")

    workloads = {  # noqa: RUF012
        "tcp-stream": workload_abilities(
            tcp_stream.WORKLOAD,
            "bulk data over TCP connections, of one thread up to iperf3 3.15",
            (
                "latency",
                "the time at which data was due",
                "the work of the kernel outside of its processes",
            ),
            fields=("tcp_streams",),
            whole_seconds=True,
            servers=(iperf3_tcp.NAME,),
        ),
        "udp-stream": workload_abilities(
            udp_stream.WORKLOAD,
            "UDP datagrams from one socket, with one system call for each",
            (
                "latency",
                "copies (a copy counts as a late datagram and hides a lost one)",
                "the due time of each datagram, and how late it was sent",
            ),
            fields=("datagram_bytes",),
            whole_seconds=True,
            servers=(iperf3_tcp.NAME,),
        ),
    }

    def launch_workload(self, job: Job) -> ClientServer[WorkloadReading]:
        """Start the server of a workload."""
        if job.trial.workload == tcp_stream.WORKLOAD.name:
            return iperf3_tcp.launch(job)
        return _launch(job, partial(_client, job), partial(_read_stream, job.trial.datagram_bytes))

    def launch(self, job: Job) -> ClientServer[Reading]:
        """Start the server, for one client."""
        return _launch(job, partial(_client, job), _read)


def _launch(
    job: Job,
    client: Callable[[float], list[str]],
    read: Callable[[ProgramEnd, ProgramEnd], R],
) -> ClientServer[R]:
    port, to_port = udp_port(job.target), peer_udp_port(job.source)
    common = ["-i", f"{job.sample_s:g}", "-J"]
    return ClientServer(
        Iperf3.name,
        job,
        server=["iperf3", "-s", "-1", "-B", address(job.target), "-p", str(port), *common],
        client=lambda duration_s: [*client(duration_s), "-p", str(to_port), *common],
        listens=("tcp", port),
        read=read,
        server_ends=True,
    )


def _client(job: Job, duration_s: float) -> list[str]:
    """The client's arguments: it paces in bits of payload a second; 0 is as fast as it can."""
    trial = job.trial
    if trial.workload == udp_stream.WORKLOAD.name:
        size, bits, burst = trial.datagram_bytes, trial.rate_pps or 0, ""
    else:
        size, rate_pps = payload_bytes(trial), trial.rate_pps
        bits = 0 if rate_pps is None else rate_pps * size * 8
        burst = f"/{trial.burst}" if bits and trial.burst > 1 else ""
    return [
        "iperf3", "-c", peer_address(job.source), "-B", address(job.source),
        "-u", "-l", str(size), "-b", f"{bits}{burst}", "-t", f"{duration_s:.0f}",
    ]  # fmt: skip


class _ReportPart(BaseModel):
    """A part of its report; keys that are not needed here are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Sum(_ReportPart):
    start: float = Field(ge=0, le=LONGEST_S)
    end: float = Field(ge=0, le=LONGEST_S)
    seconds: float = Field(ge=0, le=LONGEST_S)
    packets: int = Field(ge=0, le=MOST_PACKETS)
    # Below 0 in an interval with late packets that had counted as lost.
    lost_packets: int = Field(default=0, ge=-MOST_PACKETS, le=MOST_PACKETS)


class _IntervalPart(_ReportPart):
    sum: _Sum


class _IperfStream(_ReportPart):
    class Udp(_ReportPart):
        """The one stream."""

        out_of_order: int = Field(default=0, ge=0, le=MOST_PACKETS)

    udp: Udp


class _End(_ReportPart):
    streams: list[_IperfStream]
    sum: _Sum


class _IperfTest(_ReportPart):
    protocol: str = Field(max_length=20)
    blksize: int = Field(ge=0, le=MOST_PACKETS)


class _Start(_ReportPart):
    version: str = Field(max_length=100)
    system_info: str = Field(default="", max_length=500)
    test_start: _IperfTest


class _Report(_ReportPart):
    start: _Start
    intervals: list[_IntervalPart]
    end: _End


def _read(client: ProgramEnd, server: ProgramEnd) -> Reading:
    sent, received = _report(client), _report(server)
    arrived = _received(received.end.sum)
    check_counts(Iperf3.name, sent.end.sum.packets, arrived)
    return Reading(
        source=_end(client, sent, sent.end.sum.packets, _counts(sent, received=False)),
        target=_end(server, received, arrived, _counts(received, received=True)),
        duration_ns=round(sent.end.sum.seconds * NS_PER_S),
        reordered=sum(one.udp.out_of_order for one in received.end.streams),
    )


def _read_stream(datagram_bytes: int, client: ProgramEnd, server: ProgramEnd) -> WorkloadReading:
    """Return the same run as a workload, in bytes of payload."""
    reading = _read(client, server)

    def end(counted: EndReading) -> WorkloadEnd:
        counts = tuple(
            CountedInterval(one.t_ns, one.duration_ns, datagram_bytes * one.frames)
            for one in counted.counts
        )
        return WorkloadEnd(counted.command, counted.version, counts, counted.report)

    done = datagram_bytes * reading.target.frames
    return WorkloadReading(
        client=end(reading.source),
        server=end(reading.target),
        duration_ns=reading.duration_ns,
        sent=datagram_bytes * reading.source.frames,
        done=done,
        payload_forth=done,
        payload_back=0,
    )


def _report(end: ProgramEnd) -> _Report:
    """Return the report that it printed. Raises TrialFailed with its error message, or with the
    error in the report."""
    raw = end.decode(end.output)
    if isinstance(raw, dict) and isinstance(raw.get("error"), str):
        raise TrialFailed(end.say(f"failed: {one_line(raw['error'])}"))
    return end.parse(_Report, raw)


def _received(part: _Sum) -> int:
    """Return the received frames of a server's report, whose packets include the lost packets."""
    return max(0, part.packets - part.lost_packets)


def _counts(report: _Report, *, received: bool) -> Sequence[CountedInterval]:
    """Return the counts of each interval. The last interval may be short, and an empty interval has
    no rate."""
    found = []
    for each in report.intervals:
        part = each.sum
        frames = _received(part) if received else part.packets
        if (duration_ns := round(part.seconds * NS_PER_S)) > 0:
            found.append(CountedInterval(round(part.end * NS_PER_S), duration_ns, frames))
    return found


def _end(
    end: ProgramEnd, report: _Report, frames: int, counts: Sequence[CountedInterval]
) -> EndReading:
    return EndReading(
        command=tuple(end.command),
        version=one_line(report.start.version.removeprefix("iperf ")),
        frames=frames,
        counts=tuple(counts),
        report=report.model_dump(mode="json", exclude={"intervals"}),
    )
