"""`sockperf`: round trips of UDP messages (https://github.com/Mellanox/sockperf).

At a rate it runs as `under-load` with an answer to each message; at `rate: max` as `ping-pong`,
one message under way at a time. Times are whole round trips (`--full-rtt`; by itself it prints
halves), all of them from its log, without the first 400 ms and the last 50 ms, which it leaves
out itself.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from functools import partial
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.instrument.support.base import Abilities, Instrument, Job
from switchmark.instrument.support.client_server import ClientServer
from switchmark.instrument.support.program import (
    MOST_OUTPUT_CHARACTERS,
    ProgramEnd,
    find,
    one_line,
    version_of,
)
from switchmark.instrument.support.reading import EndReading, Reading, RoundTrips
from switchmark.instrument.support.udp import UDP_PORT, address, payload_bytes
from switchmark.model.capabilities import Availability
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.ports import PortKind
from switchmark.statistics.histogram import Histogram
from switchmark.statistics.means import of_all

LONGEST_S = 100  # that a histogram holds
COLUMNS = "packet, txTime(sec), rxTime(sec), rtt(usec)"
_S = 1_000_000_000


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
        own_frames=400,  # (it warms up by a few dummy messages)
        linux_capabilities={PortKind.VETH: ()},
        writes=(),
    )

    def availability(self) -> Availability:
        """Available where the program is installed."""
        return find("sockperf", "sockperf")

    def launch(self, job: Job) -> ClientServer:
        """Start the server; the client writes its log into the session's folder."""
        log = job.folder / f"sockperf-{job.source.node}.csv"
        to = ["-i", address(job.target), "-p", str(UDP_PORT)]
        return ClientServer(
            self.name,
            job,
            server=["sockperf", "server", *to],
            client=partial(_client, job, to, log),
            listens=("udp", UDP_PORT),
            read=partial(_read, log),
            server_ends=False,
        )


def _client(job: Job, to: list[str], log: Path, duration_s: float) -> list[str]:
    rate_pps = job.trial.rate_pps
    paced = ["under-load", "--mps", f"{rate_pps}", "--reply-every", "1"]
    return [
        "sockperf", *(["ping-pong"] if rate_pps is None else paced), *to,
        "-m", str(payload_bytes(job.trial)), "-t", f"{duration_s:.0f}",
        "--full-rtt", "--full-log", str(log),
    ]  # fmt: skip


def _read(log: Path, client: ProgramEnd, server: ProgramEnd) -> Reading:
    sent, received, run_s = _counted(client, "Total Run")
    counted = _counted(client, "Valid Duration")
    others = re.search(
        r"# dropped messages = (\d{1,15}); # duplicated messages = (\d{1,15}); "
        r"# out-of-order messages = (\d{1,15})\b", client.output
    )  # fmt: skip
    if others is None:
        raise client.failed("does not say what it lost")
    _, duplicates, reordered = (int(text) for text in others.groups())
    trips = _round_trips(client, log)
    if trips.histogram.count > counted[1]:
        raise TrialFailed(
            f"counts of sockperf contradict each other: {trips.histogram.count} round trips in its "
            f"log, {counted[1]} answers counted"
        )
    version = version_of("sockperf")
    told = {
        "total_run": {"sent": sent, "received": received, "seconds": run_s},
        "valid_duration": dict(zip(("sent", "received", "seconds"), counted, strict=True)),
        "duplicated": duplicates,
        "out_of_order": reordered,
    }
    return Reading(
        source=EndReading(tuple(client.command), version, sent, told=told),
        target=EndReading(tuple(server.command), version, received),
        duration_ns=round(run_s * _S),
        round_trips=trips,
        answered=received,
        duplicates=duplicates,
        reordered=reordered,
    )


def _counted(client: ProgramEnd, part: str) -> tuple[int, int, float]:
    """Messages sent and answered, and seconds, of one part of a run."""
    found = re.search(
        rf"\[{part}\] RunTime=(\d{{1,6}}\.\d{{1,9}}) sec;.*?SentMessages=(\d{{1,15}}); "
        r"ReceivedMessages=(\d{1,15})\b",
        client.output,
    )
    if found is None:
        raise client.failed(f"printed no line '[{part}]'")
    return int(found[2]), int(found[3]), float(found[1])


def _round_trips(client: ProgramEnd, log: Path) -> RoundTrips:
    """Every round trip of its log."""
    times = array("q")
    try:
        if log.stat().st_size > MOST_OUTPUT_CHARACTERS:
            raise TrialFailed(client.say("wrote a log without end: use a lower rate"))
        with log.open(errors="replace") as lines:
            for line in lines:
                if line.rstrip() == COLUMNS:
                    break
            for line in lines:
                if line.startswith("-"):
                    break
                times.append(_round_trip_ns(client, line))
    except OSError as error:
        raise TrialFailed(client.say(f"left no log: {error.strerror}")) from None
    finally:
        log.unlink(missing_ok=True)
    if not times:
        raise TrialFailed(client.say("had no answer: there is no latency"))
    mean, stdev = of_all((1, float(one), 0.0) for one in times)
    return RoundTrips(Histogram.of(Counter(times)), min(times), mean, stdev, max(times))


def _round_trip_ns(client: ProgramEnd, line: str) -> int:
    try:
        _, _, _, took_us = line.split(",")
        took_ns = round(float(took_us) * 1e3)
    except (ValueError, OverflowError):
        words = f"wrote a log that is not understood: {one_line(line)}"
        raise TrialFailed(client.say(words)) from None
    if not 0 < took_ns <= LONGEST_S * _S:
        raise TrialFailed(client.say(f"wrote a round trip of {took_us.strip()} us"))
    return took_ns
