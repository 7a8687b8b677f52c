"""`memtier`: memtier_benchmark, GET requests to redis-server in a closed loop
(https://github.com/RedisLabs/memtier_benchmark).

Each connection sends its next request when it has the answer. Its rate limit hides stalls, because
a connection that waits asks for nothing. So it measures requests/s at `rate: max` alone.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from switchmark.errors import TrialFailed
from switchmark.host.programs import which
from switchmark.instrument.support import redis
from switchmark.instrument.support.base import Instrument, Job
from switchmark.instrument.support.program import (
    MOST_OUTPUT_CHARACTERS,
    ProgramEnd,
    version_of,
)
from switchmark.instrument.support.reading import CountedInterval
from switchmark.instrument.support.redis import KEY_PREFIX, Redis
from switchmark.instrument.support.served import ServedClient
from switchmark.instrument.support.udp import peer_address, peer_tcp_port
from switchmark.instrument.support.workload import (
    WorkloadEnd,
    WorkloadReading,
    workload_abilities,
)
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.workload.redis import WORKLOAD

PROGRAM = "memtier_benchmark"
MOST = 1 << 50  # limit of a believable count
_SAYS = r"memtier_benchmark (\d[\w.]*)"
_S, _MS = 1_000_000_000, 1_000_000


class Memtier(Instrument):
    """Client of redis-server."""

    name = "memtier"
    sends_frames = False
    abilities = workload_abilities(
        WORKLOAD,
        "memtier_benchmark: GET requests in a closed loop",
        (
            "latency at a set rate; its rate limit hides stalls",
            "the due time of each request",
            "the number of requests in less than a second",
        ),
        fields=("connections", "response_bytes"),
        paces=False,
        whole_seconds=True,
        shortest_sample_s=1.0,
        servers=redis.PROGRAMS,
    )
    workloads = {WORKLOAD.name: abilities}  # noqa: RUF012

    def availability(self) -> Availability:
        """Available where both programs are installed."""
        server = redis.availability()
        if not server.available:
            return server
        if which(PROGRAM) is None:
            return unavailable(
                f"program `{PROGRAM}` not found",
                remedy="build github.com/RedisLabs/memtier_benchmark, and put the program into "
                "PATH",
            )
        return available(version_of(PROGRAM, ("--version",), _SAYS))

    def launch_workload(self, job: Job) -> ServedClient:
        """Start the server; the client writes its report into the session's folder."""
        server, report = Redis(job), job.folder_at(job.source) / "memtier.json"

        def command(duration_s: float) -> list[str]:
            return [
                PROGRAM, "-s", peer_address(job.source), "-p", str(peer_tcp_port(job.source)),
                "--ratio", "0:1",
                "--key-prefix", KEY_PREFIX, "--key-minimum", "1", "--key-maximum", "1",
                "-c", str(job.trial.connections), "-t", "1", "--pipeline", "1",
                "--test-time", f"{duration_s:.0f}", "--hide-histogram",
                "--json-out-file", str(report),
            ]  # fmt: skip

        def ended(client: ProgramEnd, _ran_s: float) -> WorkloadReading:
            return read(job, client, report, server.command, server.version)

        return ServedClient(self.name, job, server, command, ended)


class _ReportPart(BaseModel):
    """A part of its report; keys that are not needed here are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Second(_ReportPart):
    count: int = Field(alias="Count", ge=0, le=MOST)


class _Runtime(_ReportPart):
    duration_ms: int = Field(alias="Total duration", gt=0, le=MOST)


class _Gets(_ReportPart):
    count: int = Field(alias="Count", ge=0, le=MOST)
    misses_per_s: float = Field(alias="Misses/sec", ge=0, le=MOST)
    seconds: dict[int, _Second] = Field(alias="Time-Serie", max_length=1_000_000)


class _All(_ReportPart):
    runtime: _Runtime = Field(alias="Runtime")
    gets: _Gets = Field(alias="Gets")


class MemtierReport(_ReportPart):
    """Its report."""

    all_: _All = Field(alias="ALL STATS")


def read(
    job: Job, client: ProgramEnd, file: Path, server: tuple[str, ...], server_version: str
) -> WorkloadReading:
    """Return the counts of a run. Raises TrialFailed for a report that is wrong."""
    try:
        if file.stat().st_size > MOST_OUTPUT_CHARACTERS:
            raise TrialFailed(client.say("wrote a report without end: use a shorter duration"))
        text = file.read_text(errors="replace")
    except OSError as error:
        raise TrialFailed(client.say(f"left no report: {error.strerror}")) from None
    finally:
        file.unlink(missing_ok=True)
    report = client.parse(MemtierReport, client.decode(text)).all_
    gets, length_ns = report.gets, report.runtime.duration_ms * _MS
    if not gets.count or gets.misses_per_s:
        raise TrialFailed(client.say("had no answer with the value"))
    counts = tuple(
        CountedInterval((second + 1) * _S, _S, gets.seconds[second].count)
        for second in sorted(gets.seconds)
        if 0 <= second < length_ns // _S
    )
    return WorkloadReading(
        client=WorkloadEnd(
            tuple(client.command), version_of(PROGRAM, ("--version",), _SAYS), counts
        ),
        server=WorkloadEnd(server, server_version, counts),
        duration_ns=length_ns,
        sent=gets.count,
        done=gets.count,
        payload_forth=None,
        payload_back=gets.count * job.trial.response_bytes,
    )
