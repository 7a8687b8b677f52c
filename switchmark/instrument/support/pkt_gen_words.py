"""The output of netmap's pkt-gen: reports while it runs, and its total at the end."""

from __future__ import annotations

import re
from dataclasses import dataclass

from switchmark.errors import TrialFailed
from switchmark.instrument.support.program import SHOWN_CHARACTERS, ProgramEnd
from switchmark.instrument.support.reading import CountedInterval

# A line begins with the time of day in seconds modulo 1000.
_AT = r"^(\d{3})\.(\d{6}) "
REPORT = re.compile(
    _AT + r"main_thread \[\d{1,6}\] .*?\((\d{1,15}) ?pkts \d+ ?bps in (\d{1,12}) usec\)",
    re.MULTILINE,
)
BEGINS = re.compile(_AT + r"sender_body \[\d{1,6}\] frags ", re.MULTILINE)
ENDS = re.compile(_AT + r"sender_body \[\d{1,6}\] flush ", re.MULTILINE)
TOTAL = re.compile(r"^(?:Sent|Received) (?:nothing\.|(\d{1,15}) packets \d+ bytes )", re.MULTILINE)
GAVE_UP = re.compile(r"^(.*)\n\S+ main \[\d{1,6}\] aborting$", re.MULTILINE)
_WRAP_NS = 1_000_000_000_000
_DAMAGED = "thread 0 exited with error"


@dataclass(frozen=True, slots=True)
class PktGenReport:
    """One report: its time by the program's clock, and the frames since the last report."""

    t_ns: int
    duration_ns: int
    frames: int


@dataclass(frozen=True, slots=True)
class PktGenWords:
    """The output of one pkt-gen so far."""

    reports: tuple[PktGenReport, ...]
    total: int | None  # None: not yet
    begun_ns: int | None  # time before a sender's first frame, by its clock
    ended_ns: int | None  # time after its last frame
    gave_up: str  # reason of an early end; empty otherwise

    def counts(self, begun_ns: int, lasted_ns: int) -> tuple[CountedInterval, ...]:
        """Return the reports that lie completely in the time of the sender, with times since its
        begin."""
        timed_reports = [
            (since(begun_ns, one.t_ns), one) for one in self.reports if one.duration_ns > 0
        ]
        return tuple(
            CountedInterval(t_ns, one.duration_ns, one.frames)
            for t_ns, one in timed_reports
            if one.duration_ns <= t_ns <= lasted_ns
        )


def read_words(end: ProgramEnd) -> PktGenWords:
    """Read its output so far. Raises TrialFailed if it reports that its count is damaged."""
    output = end.output
    if _DAMAGED in output:
        raise end.failed("ended with an internal error")
    reports = tuple(
        PktGenReport(_ns(seconds, us), int(took_us) * 1000, int(frames))
        for seconds, us, frames, took_us in REPORT.findall(output)
    )
    total, begins, ends = TOTAL.search(output), BEGINS.search(output), ENDS.search(output)
    why = GAVE_UP.search(output)
    return PktGenWords(
        reports,
        None if total is None else int(total[1] or 0),
        None if begins is None else _ns(begins[1], begins[2]),
        None if ends is None else _ns(ends[1], ends[2]),
        why[1][:SHOWN_CHARACTERS] if why else "",
    )


def since(begun_ns: int, t_ns: int) -> int:
    """Return the time between two times modulo 1000 s."""
    return (t_ns - begun_ns + _WRAP_NS // 2) % _WRAP_NS - _WRAP_NS // 2


def whole_run(end: ProgramEnd) -> tuple[PktGenWords, int]:
    """Return the output of a program that has ended, and its total. Raises TrialFailed without a
    total."""
    output = read_words(end)
    if output.total is None:
        raise end.failed("did not print its total")
    return output, output.total


def sent_for(end: ProgramEnd, output: PktGenWords) -> tuple[int, int]:
    """Return the begin of a sender by its clock, and the duration. Raises TrialFailed."""
    if output.begun_ns is None or output.ended_ns is None:
        raise TrialFailed(end.say("did not print its begin and end"))
    lasted_ns = since(output.begun_ns, output.ended_ns)
    if lasted_ns <= 0:
        raise TrialFailed(end.say("printed a duration of 0"))
    return output.begun_ns, lasted_ns


def _ns(seconds: str, us: str) -> int:
    return int(seconds) * 1_000_000_000 + int(us) * 1000
