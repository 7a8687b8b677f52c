"""`redis-benchmark`: GET requests to redis-server in a closed loop (https://redis.io).

Each connection sends its next request when it has the answer. The program has a number of requests
instead of a duration, so the bench ends it; the server counts what it has answered.
"""

from __future__ import annotations

import re

from switchmark.errors import TrialFailed
from switchmark.instrument.support import redis
from switchmark.instrument.support.base import Instrument, Job
from switchmark.instrument.support.program import ProgramEnd, find, version_of
from switchmark.instrument.support.reading import CountedInterval
from switchmark.instrument.support.redis import KEY, Redis
from switchmark.instrument.support.served import ServedClient
from switchmark.instrument.support.udp import peer_address, peer_tcp_port
from switchmark.instrument.support.workload import (
    WorkloadEnd,
    WorkloadReading,
    workload_abilities,
)
from switchmark.language.values import NS_PER_S
from switchmark.model.capabilities import Availability
from switchmark.workload.redis import WORKLOAD

NAME = "redis-benchmark"
MOST_REQUESTS = 2_000_000_000  # more than there is time for
PRINTED_EACH_NS = 250_000_000  # by its own timer
_PRINTED = re.compile(r"rps=(\d{1,9}\.\d{1,9}) \(overall: ")


class RedisBenchmark(Instrument):
    """Client of redis-server."""

    name = NAME
    sends_frames = False
    abilities = workload_abilities(
        WORKLOAD,
        "GET requests in a closed loop",
        (
            "latency at a set rate; it has no rate, and a stall hides the requests behind it",
            "the due time of each request",
            "the number of requests in each interval; it prints rates, about four a second",
        ),
        fields=("connections", "response_bytes"),
        paces=False,
        shortest_sample_s=0.25,
        servers=redis.PROGRAMS,
    )
    workloads = {WORKLOAD.name: abilities}  # noqa: RUF012

    def availability(self) -> Availability:
        """Available where both programs are installed."""
        server = redis.availability()
        return server if not server.available else find(NAME, "redis-tools")

    def launch_workload(self, job: Job) -> ServedClient:
        """Start the server."""
        server = Redis(job)

        def command(_duration_s: float) -> list[str]:
            return [
                NAME, "-h", peer_address(job.source), "-p", str(peer_tcp_port(job.source)),
                "-c", str(job.trial.connections), "-n", str(MOST_REQUESTS), "get", KEY,
            ]  # fmt: skip

        def ended(client: ProgramEnd, ran_s: float) -> WorkloadReading:
            return read(job, client, server, ran_s, server.answered())

        return ServedClient(NAME, job, server, command, ended, ends=False)


def read(
    job: Job, client: ProgramEnd, server: Redis, ran_s: float, answered: int
) -> WorkloadReading:
    """Return the counts of a run. Raises TrialFailed for output that is wrong."""
    rates = [float(text) for text in _PRINTED.findall(client.output)]
    if rates and rates[0] == 0:  # printed at its start
        rates = rates[1:]
    if not rates or not answered:
        raise TrialFailed(client.say("had no answer"))
    counts = tuple(
        CountedInterval(
            (place + 1) * PRINTED_EACH_NS, PRINTED_EACH_NS, round(rate * PRINTED_EACH_NS / NS_PER_S)
        )
        for place, rate in enumerate(rates)
    )
    return WorkloadReading(
        client=WorkloadEnd(tuple(client.command), version_of(NAME), counts),
        server=WorkloadEnd(server.command, server.version, counts),
        duration_ns=round(ran_s * NS_PER_S),
        sent=answered,
        done=answered,
        payload_forth=None,
        payload_back=answered * job.trial.response_bytes,
    )
