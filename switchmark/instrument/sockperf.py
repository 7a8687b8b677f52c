"""`sockperf`: round trips of UDP messages (https://github.com/Mellanox/sockperf).

At a rate it runs as `under-load` with an answer to each message; at `rate: max` as `ping-pong` with
one message in flight. Times are whole round trips (`--full-rtt`; by default it prints halves) from
its log, without the first 400 ms and the last 50 ms, which it leaves out itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from switchmark.errors import Refusal, TrialFailed
from switchmark.instrument.support import sockperf_rr
from switchmark.instrument.support.base import Abilities, Instrument, Job
from switchmark.instrument.support.client_server import ClientServer
from switchmark.instrument.support.program import ProgramEnd, find, version_of
from switchmark.instrument.support.reading import EndReading, Reading
from switchmark.instrument.support.sockperf_log import counted, read_log, round_trips
from switchmark.instrument.support.udp import UDP_PORT, address, payload_bytes
from switchmark.instrument.support.workload import WorkloadReading, workload_abilities
from switchmark.language.values import NS_PER_S
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Availability
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.ports import PortKind
from switchmark.workload import tcp_rr, udp_rr

LEAST_MESSAGE = 14  # bytes of its header


class Sockperf(Instrument):
    """Client to server and back."""

    name = "sockperf"
    abilities = Abilities(
        description="UDP round trips: under-load at a rate, ping-pong at rate max",
        dimensions=(Dimension.LATENCY,),
        ports={PortKind.VETH: Io.UDP},
        cannot_know=(
            "the due time of each request; its times begin when the request was sent",
            "the first 400 ms and the last 50 ms",
            "how late reordered replies were",
            "frames of other programs",
            "the frames that its port refused",
        ),
        largest_burst=1,
        shortest_sample_s=None,
        whole_seconds=True,
        most_rate_pps=1_000_000,
        own_frames=400,  # it warms up by a few dummy messages
        linux_capabilities={PortKind.VETH: ()},
        writes=(),
    )

    def availability(self) -> Availability:
        """Available if the program is installed."""
        return find("sockperf", "sockperf")

    workloads = {  # noqa: RUF012
        "tcp-rr": workload_abilities(
            tcp_rr.WORKLOAD,
            "requests over one TCP connection: under-load at a rate, ping-pong at rate max",
            (
                "the due time of each request; its times begin when the request was sent",
                "the first 400 ms and the last 50 ms",
                "the time to connect",
                "the reason of a late answer",
            ),
            fields=("request_bytes", "response_bytes"),
            latency=True,
            whole_seconds=True,
            most_rate=1_000_000,
            servers=(sockperf_rr.NAME,),
        ),
        "udp-rr": workload_abilities(
            udp_rr.WORKLOAD,
            "requests as UDP datagrams: under-load at a rate, ping-pong at rate max",
            (
                "the due time of each request; its times begin when the request was sent",
                "the first 400 ms and the last 50 ms",
                "the place at which a datagram was lost",
            ),
            fields=("request_bytes",),
            latency=True,
            whole_seconds=True,
            most_rate=1_000_000,
            servers=(sockperf_rr.NAME,),
        ),
    }

    def refusals(self, sweep: Sweep) -> Iterator[Refusal]:
        """Refuse messages that it cannot send."""
        if "tcp-rr" not in sweep.workload:
            return
        if set(sweep.response_bytes) != set(sweep.request_bytes) or len(sweep.request_bytes) > 1:
            yield Refusal(
                "sockperf answers with as many bytes as the request has",
                "give request_size and response_size one value, the same",
            )
        if min(sweep.request_bytes) < LEAST_MESSAGE:
            yield Refusal(
                f"sockperf sends requests of {LEAST_MESSAGE} bytes at least",
                f"use request_size: {LEAST_MESSAGE} or more",
            )

    def launch_workload(self, job: Job) -> ClientServer[WorkloadReading]:
        """Start the server of a workload."""
        return sockperf_rr.launch(job)

    def launch(self, job: Job) -> ClientServer[Reading]:
        """Start the server; the client writes its log into the session's folder."""
        log = job.folder / f"sockperf-{job.source.node}.csv"
        to = ["-i", address(job.target), "-p", str(UDP_PORT)]
        return ClientServer(
            self.name,
            job,
            server=["sockperf", "server", *to],
            client=partial(
                sockperf_rr.client_command,
                job.trial.rate_pps,
                payload_bytes(job.trial),
                to,
                log,
            ),
            listens=("udp", UDP_PORT),
            read=partial(_read, log),
            server_ends=False,
        )


def _read(log: Path, client: ProgramEnd, server: ProgramEnd) -> Reading:
    sent, received, run_s = counted(client, "Total Run")
    valid = counted(client, "Valid Duration")
    others = re.search(
        r"# dropped messages = (\d{1,15}); # duplicated messages = (\d{1,15}); "
        r"# out-of-order messages = (\d{1,15})\b", client.output
    )  # fmt: skip
    if others is None:
        raise client.failed("does not print its losses")
    _, duplicates, reordered = (int(text) for text in others.groups())
    trips = round_trips(read_log(client, log).took_ns)
    if trips.histogram.count > valid[1]:
        raise TrialFailed(
            f"counts of sockperf contradict each other: {trips.histogram.count} round trips in its "
            f"log, {valid[1]} answers counted"
        )
    version = version_of("sockperf")
    report = {
        "total_run": {"sent": sent, "received": received, "seconds": run_s},
        "valid_duration": dict(zip(("sent", "received", "seconds"), valid, strict=True)),
        "duplicated": duplicates,
        "out_of_order": reordered,
    }
    return Reading(
        source=EndReading(tuple(client.command), version, sent, report=report),
        target=EndReading(tuple(server.command), version, received),
        duration_ns=round(run_s * NS_PER_S),
        round_trips=trips,
        answered=received,
        duplicates=duplicates,
        reordered=reordered,
    )
