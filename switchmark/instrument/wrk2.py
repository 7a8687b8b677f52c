"""`wrk2`: GET requests of HTTP/1.1 to nginx at a set rate (https://github.com/giltene/wrk2).

Its delays count from the time when a request was due. It leaves out its first ten seconds and 5 ms
for each connection. It prints percentiles alone, so a delay between two of them counts as the
higher.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from switchmark.errors import Refusal, TrialFailed
from switchmark.host.process_output import output_of
from switchmark.host.programs import which
from switchmark.instrument.support import nginx
from switchmark.instrument.support.base import Instrument, Job
from switchmark.instrument.support.nginx import Nginx
from switchmark.instrument.support.program import ProgramEnd
from switchmark.instrument.support.reading import RoundTrips
from switchmark.instrument.support.served import ServedClient
from switchmark.instrument.support.udp import peer_address, peer_tcp_port
from switchmark.instrument.support.workload import (
    WorkloadEnd,
    WorkloadReading,
    workload_abilities,
)
from switchmark.language.values import NS_PER_S
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.statistics.histogram import Histogram
from switchmark.workload.http import WORKLOAD

PROGRAMS = ("wrk2", "wrk")  # its own build calls it wrk, as another program is called
SHORTEST_S = 12  # two seconds beyond its calibration
CALIBRATION_S, CALIBRATION_EACH_S = 10.0, 0.005
LONGEST_NS = 100_000_000_000  # in a histogram
WARM_UP = "its own: the first 10 s and 5 ms for each connection are left out"
_SECTIONS = ("Recorded Latency", "Uncorrected Latency")
_ROW = re.compile(r"^ +(\d{1,12}\.\d{3}) +[01]\.\d{6} +(\d{1,15}) +\S+$", re.MULTILINE)
_MEAN = re.compile(r"#\[Mean +=\s+(\d{1,12}\.\d{3}), StdDeviation +=\s+(\d{1,12}\.\d{3})\]")
_MAX = re.compile(r"#\[Max +=\s+(\d{1,12}\.\d{3}), Total count +=\s+(\d{1,15})\]")
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_MS = 1_000_000


class Wrk2(Instrument):
    """Client of nginx."""

    name = "wrk2"
    sends_frames = False
    abilities = workload_abilities(
        WORKLOAD,
        "GET requests of HTTP/1.1 at a rate, with delays from the due time",
        (
            "the first 10 s, and 5 ms for each connection",
            "delays between the percentiles that it prints, which are rounded up to the next",
            "requests that had no answer at the end",
            "the number of requests in each interval",
        ),
        fields=("connections", "response_bytes"),
        latency=True,
        throughput=False,
        saturates=False,
        whole_seconds=True,
        most_rate=1_000_000,
        servers=(nginx.NAME,),
    )
    workloads = {WORKLOAD.name: abilities}  # noqa: RUF012

    def availability(self) -> Availability:
        """Available where nginx is installed and wrk2 is in PATH, also by the name wrk."""
        server = nginx.availability()
        if not server.available:
            return server
        program = _program()
        if program is None:
            return unavailable(
                "no program `wrk2`, and no `wrk` with the option --rate, found",
                remedy="build github.com/giltene/wrk2, and put its program into PATH as wrk2",
            )
        return available(_version(program))

    def refusals(self, sweep: Sweep) -> Iterator[Refusal]:
        """Refuse runs that end with its calibration."""
        least = SHORTEST_S + CALIBRATION_EACH_S * max(sweep.connections)
        if min(sweep.duration_s) < least:
            yield Refusal(
                f"wrk2 leaves out its first {CALIBRATION_S:.0f} s",
                f"use duration: {least + 1:.0f}s or more",
            )

    def launch_workload(self, job: Job) -> ServedClient:
        """Start nginx."""
        server, program = Nginx(job), _program() or PROGRAMS[0]

        def command(duration_s: float) -> list[str]:
            return [
                program, "-t", "1", "-c", str(job.trial.connections), "-d", f"{duration_s:.0f}s",
                "-R", str(job.trial.rate_pps), "--latency", "--u_latency",
                f"http://{peer_address(job.source)}:{peer_tcp_port(job.source)}/",
            ]  # fmt: skip

        def ended(client: ProgramEnd, _ran_s: float) -> WorkloadReading:
            return read(job, client, server.command, server.version)

        return ServedClient(self.name, job, server, command, ended)


@cache
def _program() -> str | None:
    """Return the name of wrk2 in PATH; None if it is missing."""
    for name in PROGRAMS:
        if which(name) is not None and "--rate" in output_of([name, "--help"]):
            return name
    return None


def _version(program: str) -> str:
    found = re.search(r"wrk (\d[\w.]{0,40})", output_of([program, "--version"]))
    return found[1] if found else "unknown version"


def read(
    job: Job, client: ProgramEnd, server: tuple[str, ...], server_version: str
) -> WorkloadReading:
    """Return the counts of a run. Raises TrialFailed for output that is wrong."""
    printed = client.output
    counted = re.search(
        r"^ +(\d{1,15}) requests in (\d{1,6}\.\d{1,3})(us|ms|s|m|h), "
        r"(\d{1,9}\.\d{1,3})(B|KB|MB|GB|TB) read$",
        printed, re.MULTILINE,
    )  # fmt: skip
    if counted is None:
        raise client.failed("printed no counts of requests")
    failed = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)",
                       printed)  # fmt: skip
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", printed)
    done, run_s = int(counted[1]), float(counted[2]) * _TIMES[counted[3]]
    from_due, round_trips = (_delays(client, title) for title in _SECTIONS)
    if from_due.histogram.count > done:
        raise TrialFailed(
            f"counts of wrk2 contradict each other: {from_due.histogram.count} delays printed, "
            f"{done} answers counted"
        )
    rate = job.trial.rate_pps or 0
    errors = sum(map(int, failed.groups())) if failed else 0
    errors += int(wrong[1]) if wrong else 0
    return WorkloadReading(
        client=WorkloadEnd(
            tuple(client.command),
            _version(client.command[0]),
            report={"output": printed[-2000:]},
        ),
        server=WorkloadEnd(server, server_version),
        duration_ns=round(run_s * NS_PER_S),
        sent=max(done, round(rate * run_s)),  # those that were due
        done=done,
        payload_forth=None,
        payload_back=round(float(counted[4]) * _BYTES[counted[5]]),
        round_trips=round_trips,
        from_due=from_due,
        failures={"errors": errors} if errors else {},
        warm_up=WARM_UP,
    )


def _delays(client: ProgramEnd, title: str) -> RoundTrips:
    """Return the delays of one section, by its percentiles. Raises TrialFailed for a section that
    is missing or wrong."""
    at = client.output.find(title)
    rest = client.output[at:] if at >= 0 else ""
    end = rest.find("#[Buckets")
    section = rest[:end] if end >= 0 else ""
    mean, most = _MEAN.search(section), _MAX.search(section)
    rows = [(0, 0), *((round(float(v) * _MS), int(n)) for v, n in _ROW.findall(section))]
    if mean is None or most is None or len(rows) < 2:
        raise client.failed(f"printed no percentiles of '{title}'")
    times: dict[int, int] = {}
    for (before_ns, before), (value_ns, count) in pairwise(rows):
        if count < before or value_ns < before_ns or value_ns > LONGEST_NS:
            raise TrialFailed(client.say(f"printed percentiles of '{title}' that go down"))
        if count > before:
            times[max(1, value_ns)] = times.get(max(1, value_ns), 0) + count - before
    if not times:
        raise TrialFailed(client.say("had no answer: there is no latency"))
    return RoundTrips(
        Histogram.of(times), min(times), float(mean[1]) * _MS, float(mean[2]) * _MS, max(times)
    )
