"""`sockperf` for `tcp-rr` and `udp-rr`: requests and responses of one size, over one TCP connection
(`--tcp`) or as UDP datagrams.

At a rate it runs as `under-load`, an open loop that sends whether or not the last answer has come;
at `rate: max` as `ping-pong`, one request at a time.
"""

from __future__ import annotations

from array import array
from functools import partial
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.instrument.support.base import Job
from switchmark.instrument.support.client_server import ClientServer
from switchmark.instrument.support.program import ProgramEnd, version_of
from switchmark.instrument.support.reading import count_by_interval
from switchmark.instrument.support.sockperf_log import counted, read_log, round_trips
from switchmark.instrument.support.udp import (
    address,
    peer_address,
    peer_tcp_port,
    peer_udp_port,
    tcp_port,
    udp_port,
)
from switchmark.instrument.support.workload import WorkloadEnd, WorkloadReading
from switchmark.language.values import NS_PER_S
from switchmark.workload import tcp_rr

NAME = "sockperf"
ANSWERED_SHARE = 0.9  # the rest may be under way at the end
WARM_UP = "its own: the first 400 ms and the last 50 ms are left out"


def launch(job: Job) -> ClientServer[WorkloadReading]:
    """Start the server; the client writes its log into the session's folder."""
    log = job.folder_at(job.source) / "sockperf.csv"
    tcp = job.trial.workload == tcp_rr.WORKLOAD.name
    port = tcp_port(job.target) if tcp else udp_port(job.target)
    to_port = peer_tcp_port(job.source) if tcp else peer_udp_port(job.source)
    kind = ["--tcp"] if tcp else []
    to = ["-i", peer_address(job.source), "-p", str(to_port), *kind]
    return ClientServer(
        NAME,
        job,
        server=["sockperf", "server", "-i", address(job.target), "-p", str(port), *kind],
        client=partial(client_command, job.trial.rate_pps, job.trial.request_bytes, to, log),
        listens=("tcp" if tcp else "udp", port),
        read=partial(read, job, log),
        server_ends=False,
    )


def client_command(
    rate_per_s: int | None, payload_bytes: int, to: list[str], log: Path, duration_s: float
) -> list[str]:
    """Return the client's command line."""
    paced = ["under-load", "--mps", f"{rate_per_s}", "--reply-every", "1"]
    return [
        "sockperf", *(["ping-pong"] if rate_per_s is None else paced), *to,
        "-m", str(payload_bytes), "-t", f"{duration_s:.0f}",
        "--full-rtt", "--full-log", str(log),
    ]  # fmt: skip


def read(job: Job, log: Path, client: ProgramEnd, server: ProgramEnd) -> WorkloadReading:
    """Return the counts of its valid part, which the log covers. Raises TrialFailed for output that
    is wrong."""
    whole_sent, whole_received, whole_s = counted(client, "Total Run")
    sent, received, valid_s = counted(client, "Valid Duration")
    lines = read_log(client, log)
    if len(lines.took_ns) > received:
        raise TrialFailed(
            f"counts of sockperf contradict each other: {len(lines.took_ns)} round trips in its "
            f"log, {received} answers counted"
        )
    tcp = job.trial.workload == tcp_rr.WORKLOAD.name
    if tcp and received < ANSWERED_SHARE * sent:
        raise TrialFailed(
            f"sockperf answered {received} of {sent} requests, and TCP loses none: its server has "
            "lost the bounds of messages in the stream, or is too slow; use a lower rate, or "
            "another generator"
        )
    size = job.trial.request_bytes
    begin_ns = min(lines.sent_ns)
    answered_at = array("q", map(sum, zip(lines.sent_ns, lines.took_ns, strict=True)))
    reading = WorkloadReading(
        client=WorkloadEnd(
            tuple(client.command),
            version_of(NAME),
            count_by_interval(lines.sent_ns, begin_ns, valid_s, job.sample_s),
            report={
                "total_run": {"sent": whole_sent, "received": whole_received, "seconds": whole_s},
                "valid_duration": {"sent": sent, "received": received, "seconds": valid_s},
            },
        ),
        server=WorkloadEnd(
            tuple(server.command),
            job.target.place.version_of(NAME),
            count_by_interval(answered_at, begin_ns, valid_s, job.sample_s),
        ),
        duration_ns=round(whole_s * NS_PER_S),
        sent=whole_sent,
        done=whole_received,
        payload_forth=whole_sent * size,
        payload_back=whole_received * size,
        round_trips=round_trips(lines.took_ns),
        warm_up=WARM_UP,
    )
    reading.check(NAME)
    return reading
