"""A run of two ends that are polled for their counters, the common base of testpmd, TRex and
MoonGen."""

from __future__ import annotations

import time
from collections.abc import Sequence

from switchmark.instrument.support.base import Job
from switchmark.instrument.support.polling import Polled
from switchmark.instrument.support.reading import EndReading, Reading, check_counts
from switchmark.language.values import NS_PER_S

ANSWER_TIMEOUT_S = 15.0
LATE_S = 1.0  # time after its duration, for a sender that was interrupted
DRAIN_READINGS = 3  # after these readings with the same count, no more frames come
_DRAIN_PAUSE_S = 0.1
_LONGEST_WAIT_NS = 100_000_000


class PolledRun:
    """A `Launched` of a receiver and a sender, started."""

    def __init__(
        self, name: str, job: Job, source: Polled, target: Polled, version: str = ""
    ) -> None:
        """`name` is for messages; `version` is for a program that reports none."""
        self._name, self._job, self._version = name, job, version
        self._source, self._target = source, target
        self._duration_s = 0.0
        self._begun_ns = self._stop_ns = self._asked_ns = 0

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until both have their ports, and the receiver counts."""
        deadline = time.monotonic() + timeout_s
        for end in (self._target, self._source):
            end.wait_ready(max(0.1, deadline - time.monotonic()))

    def begin(self, duration_s: float) -> None:
        """Start the stream. Earlier frames do not count."""
        self._duration_s = duration_s
        for end in (self._target, self._source):
            end.reset(ANSWER_TIMEOUT_S)
        # The sender has a timer at its highest rate; at a rate it would send delayed frames later.
        endless = self._job.trial.rate_pps is None
        self._source.start(-1 if endless else duration_s, ANSWER_TIMEOUT_S)
        self._begun_ns = self._source.last_ns
        self._asked_ns = time.monotonic_ns()
        late_s = 0.0 if endless else LATE_S
        self._stop_ns = self._asked_ns + round((duration_s + late_s) * NS_PER_S)

    def running(self) -> bool:
        """Read both once in a sample's length; stop the sender when its time is over."""
        for end in (self._source, self._target):
            end.take()
        if not self._source.sends:
            return False
        if 0 < (left_ns := self._stop_ns - time.monotonic_ns()) < _LONGEST_WAIT_NS:
            # The next call may be late, and the sender must stop in time.
            time.sleep(left_ns / NS_PER_S)
        now_ns = time.monotonic_ns()
        if now_ns >= self._stop_ns:
            self._source.stop(ANSWER_TIMEOUT_S)
            return False
        if now_ns - self._asked_ns >= self._job.sample_s * NS_PER_S:
            self._asked_ns = now_ns
            for end in (self._source, self._target):
                if not end.waits:
                    end.read()
        return True

    def finish(self, timeout_s: float) -> Reading:
        """Return the counts when no more frames come."""
        deadline = time.monotonic() + timeout_s
        both = (self._source, self._target)
        for end in both:
            end.wait_answer(ANSWER_TIMEOUT_S)
        duration_ns = self._source.last_ns - self._begun_ns  # up to the reading that found it idle
        if self._job.trial.rate_pps is not None:
            duration_ns = min(duration_ns, round(self._duration_s * NS_PER_S))
        counts = [end.counts(self._begun_ns, duration_ns) for end in both]
        sent, received = (final_count(end, deadline) for end in both)
        check_counts(self._name, sent, received)
        source, target = (
            EndReading(
                command=tuple(end.program.command),
                version=end.version or self._version,
                frames=frames,
                counts=seen,
                report=end.report(),
            )
            for end, frames, seen in zip(both, (sent, received), counts, strict=True)
        )
        return Reading(source=source, target=target, duration_ns=duration_ns)

    def process_ids(self) -> Sequence[int]:
        """Return the processes of both ends."""
        return [pid for end in (self._target, self._source) for pid in end.process_ids()]

    def close(self) -> None:
        """End both."""
        for end in (self._source, self._target):
            end.close()


def final_count(end: Polled, deadline: float) -> int:
    """Read an end until its frames no longer grow, and return them. Raises TrialFailed if they
    still grow at the deadline."""
    readings: list[int] = []
    while True:
        end.read()
        end.wait_answer(ANSWER_TIMEOUT_S)
        readings.append(end.frames)
        grew = len(set(readings[-DRAIN_READINGS:])) > 1
        if len(readings) >= DRAIN_READINGS and not grew:
            return readings[-1]
        if grew and time.monotonic() > deadline:
            raise end.program.failed("still counts frames, long after the stream has ended")
        time.sleep(_DRAIN_PAUSE_S)
