"""What netmap's pkt-gen prints: reports while it runs, and its total at the end."""

from __future__ import annotations

import re
from dataclasses import dataclass

from switchmark.errors import TrialFailed
from switchmark.instrument.support.program import SHOWN_CHARACTERS, ProgramEnd
from switchmark.instrument.support.reading import CountedInterval

# The time that begins a line is that of day, in seconds modulo 1000.
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
    """One report: when it was made, by its clock, and what came since the one before."""

    t_ns: int
    duration_ns: int
    frames: int


@dataclass(frozen=True, slots=True)
class PktGenWords:
    """All that one pkt-gen has said so far."""

    reports: tuple[PktGenReport, ...]
    total: int | None  # None: not yet
    begun_ns: int | None  # of a sender, by its clock: before its first frame
    ended_ns: int | None  # and after its last
    gave_up: str  # why; empty where it did not

    def counts(self, begun_ns: int, lasted_ns: int) -> tuple[CountedInterval, ...]:
        """The reports that lie wholly in this time of the sender's. Their times are since its
        beginning."""
        seen = [(since(begun_ns, one.t_ns), one) for one in self.reports if one.duration_ns > 0]
        return tuple(
            CountedInterval(t_ns, one.duration_ns, one.frames)
            for t_ns, one in seen
            if one.duration_ns <= t_ns <= lasted_ns
        )


def read_words(end: ProgramEnd) -> PktGenWords:
    """What it has said so far. Raises TrialFailed where it says that its count is none."""
    output = end.output
    if _DAMAGED in output:
        raise end.failed("ended with an error of its own")
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
    """The time between two that are told modulo 1000 s."""
    return (t_ns - begun_ns + _WRAP_NS // 2) % _WRAP_NS - _WRAP_NS // 2


def whole_run(end: ProgramEnd) -> tuple[PktGenWords, int]:
    """What a program said that has ended, and its total. Raises TrialFailed where it told none."""
    words = read_words(end)
    if words.total is None:
        raise end.failed("did not say what it counted")
    return words, words.total


def sent_for(end: ProgramEnd, words: PktGenWords) -> tuple[int, int]:
    """When a sender began, by its clock, and how long it sent. Raises TrialFailed."""
    if words.begun_ns is None or words.ended_ns is None:
        raise TrialFailed(end.say("did not say when it began and ended"))
    lasted_ns = since(words.begun_ns, words.ended_ns)
    if lasted_ns <= 0:
        raise TrialFailed(end.say("sent for no time at all, by its own words"))
    return words.begun_ns, lasted_ns


def _ns(seconds: str, us: str) -> int:
    return int(seconds) * 1_000_000_000 + int(us) * 1000
