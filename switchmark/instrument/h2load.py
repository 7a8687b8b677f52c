"""`h2load`: GET requests of HTTP/1.1 to nginx in a closed loop (https://nghttp2.org).

Each connection sends its next request when it has the answer. Its rate control hides stalls: it
stops its clock while a connection waits. So it measures requests/s at `rate: max` alone.
"""

from __future__ import annotations

import re
from array import array
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.instrument.support import nginx
from switchmark.instrument.support.base import Instrument, Job
from switchmark.instrument.support.nginx import Nginx
from switchmark.instrument.support.program import (
    MOST_OUTPUT_CHARACTERS,
    ProgramEnd,
    find,
    one_line,
    version_of,
)
from switchmark.instrument.support.reading import count_by_interval
from switchmark.instrument.support.served import ServedClient
from switchmark.instrument.support.udp import peer_address, peer_tcp_port
from switchmark.instrument.support.workload import (
    WorkloadEnd,
    WorkloadReading,
    workload_abilities,
)
from switchmark.language.values import NS_PER_S
from switchmark.model.capabilities import Availability
from switchmark.workload import http

_VERSION = (("--version",), r"nghttp2/(\d[\w.]*)")
_US = 1_000


class H2load(Instrument):
    """Client of nginx."""

    name = "h2load"
    sends_frames = False
    abilities = workload_abilities(
        http.WORKLOAD,
        "GET requests of HTTP/1.1 in a closed loop",
        (
            "latency at a set rate; its rate control hides stalls",
            "the due time of each request",
            "the time to connect",
        ),
        fields=("connections", "response_bytes"),
        paces=False,
        whole_seconds=True,
        servers=(nginx.NAME,),
    )
    workloads = {"http": abilities}  # noqa: RUF012

    def availability(self) -> Availability:
        """Available where both programs are installed."""
        server = nginx.availability()
        return server if not server.available else find("h2load", "nghttp2-client", *_VERSION)

    def launch_workload(self, job: Job) -> ServedClient:
        """Start nginx; the client writes its log into the session's folder."""
        server, log = Nginx(job), job.folder_at(job.source) / "h2load.tsv"

        def command(duration_s: float) -> list[str]:
            return [
                "h2load", "--h1", "-c", str(job.trial.connections), "-t", "1",
                "-D", f"{duration_s:.0f}", f"--log-file={log}",
                f"http://{peer_address(job.source)}:{peer_tcp_port(job.source)}/",
            ]  # fmt: skip

        def ended(client: ProgramEnd, _ran_s: float) -> WorkloadReading:
            return read(job, client, log, server.command, server.version)

        return ServedClient(self.name, job, server, command, ended)


def read(
    job: Job, client: ProgramEnd, log: Path, server: tuple[str, ...], server_version: str
) -> WorkloadReading:
    """Return the counts of a run. Raises TrialFailed for output that is wrong."""
    counted = re.search(
        r"requests: (\d{1,15}) total, (\d{1,15}) started, (\d{1,15}) done, (\d{1,15}) succeeded",
        client.output,
    )
    traffic = re.search(r"traffic: \S+ \((\d{1,18})\) total", client.output)
    lasted = re.search(r"finished in (\d{1,6}(?:\.\d{1,9})?)(ms|us|s)\b", client.output)
    if counted is None or traffic is None or lasted is None:
        raise client.failed("printed no counts of requests and traffic")
    started, succeeded = int(counted[2]), int(counted[4])
    begun, ended = _times_ns(client, log)
    if not succeeded or not ended:
        raise TrialFailed(client.say("had no answer"))
    origin_ns = min(begun)
    scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6}[lasted[2]]
    run_s = float(lasted[1]) * scale
    reading = WorkloadReading(
        client=WorkloadEnd(
            tuple(client.command),
            version_of("h2load", *_VERSION),
            count_by_interval(begun, origin_ns, run_s, job.sample_s),
            {"output": client.output[-2000:]},
        ),
        server=WorkloadEnd(
            server, server_version, count_by_interval(ended, origin_ns, run_s, job.sample_s)
        ),
        duration_ns=round(run_s * NS_PER_S),
        sent=max(started, succeeded),
        done=succeeded,
        payload_forth=None,
        payload_back=int(traffic[1]),
    )
    reading.check("h2load")
    return reading


def _times_ns(client: ProgramEnd, log: Path) -> tuple[array[int], array[int]]:
    """Return when each request of the log began and ended, by the clock of the client."""
    begun, ended = array("q"), array("q")
    try:
        if log.stat().st_size > MOST_OUTPUT_CHARACTERS:
            raise TrialFailed(client.say("wrote a log without end: use a shorter duration"))
        for line in log.read_text(errors="replace").splitlines():
            fields = line.split("\t")
            if len(fields) != 3 or not all(re.fullmatch(r"-?\d{1,17}", one) for one in fields):
                message = f"wrote a log that is not understood: {one_line(line)}"
                raise TrialFailed(client.say(message))
            start_us, _status, took_us = map(int, fields)
            begun.append(start_us * _US)
            ended.append((start_us + max(0, took_us)) * _US)
    except OSError as error:
        raise TrialFailed(client.say(f"left no log: {error.strerror}")) from None
    finally:
        log.unlink(missing_ok=True)
    return begun, ended
