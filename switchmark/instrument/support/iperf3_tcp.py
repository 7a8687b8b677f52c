"""`iperf3` as a client and a server of bulk TCP: its command lines and its reports.

The server is the one that counts what arrived; the client's report has what it wrote, and its
kernel's retransmissions. One thread serves all connections up to iperf3 3.15.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from switchmark.errors import TrialFailed
from switchmark.instrument.support.base import Job
from switchmark.instrument.support.client_server import ClientServer
from switchmark.instrument.support.program import ProgramEnd, one_line
from switchmark.instrument.support.reading import CountedInterval
from switchmark.instrument.support.udp import address, peer_address, peer_tcp_port, tcp_port
from switchmark.instrument.support.workload import WorkloadEnd, WorkloadReading
from switchmark.language.values import NS_PER_S

NAME = "iperf3"
LONGEST_S, MOST_BYTES = 2 * 86_400, 1 << 60  # limits of a believable count


class _ReportPart(BaseModel):
    """A part of its report; keys that are not needed here are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Sum(_ReportPart):
    end: float = Field(ge=0, le=LONGEST_S)
    seconds: float = Field(ge=0, le=LONGEST_S)
    bytes: int = Field(ge=0, le=MOST_BYTES)
    retransmits: int | None = Field(default=None, ge=0, le=MOST_BYTES)


class _Interval(_ReportPart):
    sum: _Sum


class _Totals(_ReportPart):
    sum_sent: _Sum
    sum_received: _Sum
    sender_tcp_congestion: str = Field(default="", max_length=40)
    receiver_tcp_congestion: str = Field(default="", max_length=40)


class _Start(_ReportPart):
    version: str = Field(max_length=100)
    tcp_mss_default: int = Field(default=0, ge=0, le=1 << 20)
    sndbuf_actual: int = Field(default=0, ge=0, le=MOST_BYTES)
    rcvbuf_actual: int = Field(default=0, ge=0, le=MOST_BYTES)


class IperfTcpReport(_ReportPart):
    """The report of one end."""

    start: _Start
    intervals: list[_Interval]
    end: _Totals


def launch(job: Job) -> ClientServer[WorkloadReading]:
    """Start the server, for one client."""
    common = ["-i", f"{job.sample_s:g}", "-J"]
    port, to_port = str(tcp_port(job.target)), str(peer_tcp_port(job.source))
    return ClientServer(
        NAME,
        job,
        server=["iperf3", "-s", "-1", "-B", address(job.target), "-p", port, *common],
        client=lambda duration_s: [*client_command(job, duration_s), "-p", to_port, *common],
        listens=("tcp", tcp_port(job.target)),
        read=read,
        server_ends=True,
    )


def client_command(job: Job, duration_s: float) -> list[str]:
    """Return the client's command line. Each connection is paced for itself, in bits a second."""
    trial = job.trial
    rate = 0 if trial.rate_pps is None else max(1, round(trial.rate_pps / trial.tcp_streams))
    return [
        "iperf3", "-c", peer_address(job.source), "-B", address(job.source), "-b", str(rate),
        "-t", f"{duration_s:.0f}", "-P", str(trial.tcp_streams),
    ]  # fmt: skip


def read(client: ProgramEnd, server: ProgramEnd) -> WorkloadReading:
    """Return the counts of both ends. Raises TrialFailed for a report that is wrong."""
    sent, received = _report(client), _report(server)
    written, arrived = sent.end.sum_sent, received.end.sum_received
    reading = WorkloadReading(
        client=_end(client, sent),
        server=_end(server, received),
        duration_ns=round(written.seconds * NS_PER_S),
        sent=written.bytes,
        done=arrived.bytes,
        payload_forth=arrived.bytes,
        payload_back=0,
        congestion_control=one_line(sent.end.sender_tcp_congestion)
        if sent.end.sender_tcp_congestion
        else "",
    )
    reading.check(NAME)
    return reading


def _report(end: ProgramEnd) -> IperfTcpReport:
    raw = end.decode(end.output)
    if isinstance(raw, dict) and isinstance(raw.get("error"), str):
        raise TrialFailed(end.say(f"failed: {one_line(raw['error'])}"))
    return end.parse(IperfTcpReport, raw)


def _end(end: ProgramEnd, report: IperfTcpReport) -> WorkloadEnd:
    """The amounts interval by interval; an empty interval has no rate and is left out."""
    counts = tuple(
        CountedInterval(round(one.sum.end * NS_PER_S), length_ns, one.sum.bytes)
        for one in report.intervals
        if (length_ns := round(one.sum.seconds * NS_PER_S)) > 0
    )
    return WorkloadEnd(
        command=tuple(end.command),
        version=one_line(report.start.version.removeprefix("iperf ")),
        counts=counts,
        report=report.model_dump(mode="json", exclude={"intervals"})
        | {"congestion_control": report.end.receiver_tcp_congestion},
    )
