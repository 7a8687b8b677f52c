"""The output of sockperf: its counts, and its log with every round trip."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.instrument.support.program import MOST_OUTPUT_CHARACTERS, ProgramEnd, one_line
from switchmark.instrument.support.reading import RoundTrips
from switchmark.language.values import NS_PER_S
from switchmark.statistics.histogram import Histogram
from switchmark.statistics.means import of_all

LONGEST_S = 100  # that a histogram holds
LONGEST_RUN_S = 1_000_000
COLUMNS = "packet, txTime(sec), rxTime(sec), rtt(usec)"


@dataclass(frozen=True, slots=True)
class LoggedTrips:
    """The answered requests of its log: when each was sent, by its clock, and the round trip."""

    sent_ns: array[int] = field(default_factory=lambda: array("q"))
    took_ns: array[int] = field(default_factory=lambda: array("q"))


def counted(client: ProgramEnd, part: str) -> tuple[int, int, float]:
    """Return messages sent and answered, and seconds, of one part of a run."""
    found = re.search(
        rf"\[{part}\] RunTime=(\d{{1,6}}\.\d{{1,9}}) sec;.*?SentMessages=(\d{{1,15}}); "
        r"ReceivedMessages=(\d{1,15})\b",
        client.output,
    )
    if found is None:
        raise client.failed(f"printed no line '[{part}]'")
    return int(found[2]), int(found[3]), float(found[1])


def read_log(client: ProgramEnd, log: Path) -> LoggedTrips:
    """Read every round trip of its log, and remove the log."""
    found = LoggedTrips()
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
                sent_ns, took_ns = _logged(client, line)
                found.sent_ns.append(sent_ns)
                found.took_ns.append(took_ns)
    except OSError as error:
        raise TrialFailed(client.say(f"left no log: {error.strerror}")) from None
    finally:
        log.unlink(missing_ok=True)
    if not found.took_ns:
        raise TrialFailed(client.say("had no answer: there is no latency"))
    return found


def round_trips(took_ns: array[int]) -> RoundTrips:
    """Summarise round trips."""
    mean, stdev = of_all((1, float(one), 0.0) for one in took_ns)
    return RoundTrips(Histogram.of(Counter(took_ns)), min(took_ns), mean, stdev, max(took_ns))


def _logged(client: ProgramEnd, line: str) -> tuple[int, int]:
    """When a request was sent and how long its round trip took, of one line of the log."""
    try:
        _, sent_s, _, took_us = line.split(",")
        sent_ns, took_ns = round(float(sent_s) * NS_PER_S), round(float(took_us) * 1e3)
    except (ValueError, OverflowError):
        message = f"wrote a log that is not understood: {one_line(line)}"
        raise TrialFailed(client.say(message)) from None
    if not 0 < took_ns <= LONGEST_S * NS_PER_S:
        raise TrialFailed(client.say(f"wrote a round trip of {took_us.strip()} us"))
    if not 0 <= sent_ns <= LONGEST_RUN_S * NS_PER_S:
        raise TrialFailed(client.say(f"wrote a time of {sent_s.strip()} s"))
    return sent_ns, took_ns
