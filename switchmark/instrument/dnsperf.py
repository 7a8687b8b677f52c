"""`dnsperf`: DNS queries over UDP, in an open loop at a set rate
(https://www.dns-oarc.net/tools/dnsperf).

The server is dnsmasq, which answers one name from its configuration. Up to five seconds of queries
may be open, so that a stall of the server does not stop the client.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.host.programs import ProgramPlace, not_installed
from switchmark.instrument.support.base import Instrument, Job
from switchmark.instrument.support.client_server import ClientServer
from switchmark.instrument.support.program import ProgramEnd, find, version_of
from switchmark.instrument.support.reading import CountedInterval, RoundTrips
from switchmark.instrument.support.udp import address, peer_address, peer_udp_port, udp_port
from switchmark.instrument.support.workload import (
    WorkloadEnd,
    WorkloadReading,
    workload_abilities,
)
from switchmark.language.values import NS_PER_S
from switchmark.model.capabilities import Availability
from switchmark.statistics.histogram import Histogram
from switchmark.statistics.means import of_all
from switchmark.workload import dns

SERVER = "dnsmasq"
NAME, ANSWER = "www.switchmark.test", "192.0.2.7"  # RFC 6761, RFC 5737
OPEN_S = 5  # seconds of queries that may be without an answer
MOST_OPEN = 65_000  # dnsperf has a 16-bit number for each
LONGEST_NS = 100_000_000_000
_VERSION = (("-h",), r"Version (\d[\w.]*)")
_ANSWERED = re.compile(r"^> NOERROR \S+ A (\d{1,3}\.\d{1,9})$", re.MULTILINE)
_INTERVAL = re.compile(r"^(\d{1,12}\.\d{6}): (\d{1,9}\.\d{1,9})$", re.MULTILINE)


class Dnsperf(Instrument):
    """Client to server and back."""

    name = "dnsperf"
    sends_frames = False
    abilities = workload_abilities(
        dns.WORKLOAD,
        "DNS queries over UDP to dnsmasq, at a rate",
        (
            "the due time of each query; its times begin when the query was sent",
            "late sends of the client",
            "the number of queries in each interval; it prints rates",
        ),
        latency=True,
        saturates=False,
        whole_seconds=True,
        most_rate=200_000,
        servers=(SERVER,),
    )
    workloads = {"dns": abilities}  # noqa: RUF012

    def availability(self) -> Availability:
        """Available where both programs are installed."""
        return not_installed("dnsmasq", "dnsmasq-base") or find("dnsperf", "dnsperf", *_VERSION)

    def launch_workload(self, job: Job) -> ClientServer[WorkloadReading]:
        """Start the server, and write the query into the session's folder."""
        queries = job.folder_at(job.source) / "dnsperf.txt"
        queries.write_text(f"{NAME} A\n")
        return ClientServer(
            self.name,
            job,
            server=[
                SERVER, "--no-daemon", f"--port={udp_port(job.target)}",
                f"--listen-address={address(job.target)}", "--bind-interfaces", "--no-resolv",
                "--no-hosts", "--conf-file=/dev/null", "--pid-file=", "--cache-size=0",
                "--no-ping", f"--address=/{NAME}/{ANSWER}",
            ],
            client=partial(client_command, job, queries),
            listens=("udp", udp_port(job.target)),
            read=partial(read, job.target.place),
            server_ends=False,
        )  # fmt: skip


def client_command(job: Job, queries: Path, duration_s: float) -> list[str]:
    """Return the command line of the client."""
    rate = job.trial.rate_pps or 1
    return [
        "dnsperf", "-s", peer_address(job.source), "-p", str(peer_udp_port(job.source)),
        "-d", str(queries),
        "-l", f"{duration_s:.0f}", "-Q", str(rate), "-q", str(min(MOST_OPEN, OPEN_S * rate)),
        "-S", f"{job.sample_s:g}", "-v",
    ]  # fmt: skip


def read(place: ProgramPlace, client: ProgramEnd, server: ProgramEnd) -> WorkloadReading:
    """Return the counts of a run. Raises TrialFailed for output that is wrong."""
    printed = client.output
    sent, done = _number(client, "Queries sent"), _number(client, "Queries completed")
    sizes = re.search(r"Average packet size:\s+request (\d{1,5}), response (\d{1,5})", printed)
    run_s = re.search(r"Run time \(s\):\s+(\d{1,6}\.\d{1,9})", printed)
    if sizes is None or run_s is None:
        raise client.failed("printed no sizes of packets, or no run time")
    took_ns = array("q", (round(float(text) * NS_PER_S) for text in _ANSWERED.findall(printed)))
    if not took_ns:
        raise TrialFailed(client.say("had no answer: there is no latency"))
    if len(took_ns) > done or not 0 <= min(took_ns) <= max(took_ns) <= LONGEST_NS:
        raise TrialFailed(
            f"counts of dnsperf contradict each other: {len(took_ns)} delays printed, {done} "
            "answers counted"
        )
    counts = tuple(_intervals(printed))
    mean, stdev = of_all((1, float(each), 0.0) for each in took_ns)
    trips = RoundTrips(Histogram.of(Counter(took_ns)), min(took_ns), mean, stdev, max(took_ns))
    version = version_of("dnsperf", *_VERSION)
    reading = WorkloadReading(
        client=WorkloadEnd(tuple(client.command), version, counts),
        server=WorkloadEnd(tuple(server.command), place.version_of(SERVER), counts),
        duration_ns=round(float(run_s[1]) * NS_PER_S),
        sent=sent,
        done=done,
        payload_forth=sent * int(sizes[1]),
        payload_back=done * int(sizes[2]),
        round_trips=trips,
    )
    reading.check("dnsperf")
    return reading


def _number(client: ProgramEnd, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d{{1,15}})\b", client.output)
    if found is None:
        raise client.failed(f"printed no line '{name}'")
    return int(found[1])


def _intervals(printed: str) -> list[CountedInterval]:
    """Return the answers of each interval, from the rates that it prints with the time of the end
    of each."""
    lines = [(float(end), float(rate)) for end, rate in _INTERVAL.findall(printed)]
    counts = []
    for (begin_s, _), (end_s, rate) in pairwise(lines):
        length_ns = round((end_s - begin_s) * NS_PER_S)
        if length_ns > 0:
            end_ns = round((end_s - lines[0][0]) * NS_PER_S)
            counts.append(CountedInterval(end_ns, length_ns, round(rate * length_ns / NS_PER_S)))
    return counts
