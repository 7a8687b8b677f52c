"""One end of a generator that a program of the bench polls for its counters, in lines of JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from switchmark.errors import TrialFailed
from switchmark.formatting import encodable
from switchmark.instrument.support.polling import Polled
from switchmark.instrument.support.program import SHOWN_CHARACTERS, ProgramEnd, one_line
from switchmark.instrument.support.reading import CountedInterval

MOST_FRAMES = 1 << 50  # larger values are not counts of a run
_POLL_S = 0.2


class PolledCounters(BaseModel):
    """One answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    t_ns: int = Field(ge=0, le=1 << 62)
    sent: int = Field(ge=0, le=MOST_FRAMES)
    received: int = Field(ge=0, le=MOST_FRAMES)
    output_errors: int | None = Field(default=None, ge=0, le=MOST_FRAMES)
    input_errors: int | None = Field(default=None, ge=0, le=MOST_FRAMES)
    queue_full: int | None = Field(default=None, ge=0, le=MOST_FRAMES)
    sends: bool


class PolledEnd(Polled):
    """A `Polled`: a program that answers, and the server that it queries, if it is separate."""

    def __init__(self, answers: ProgramEnd, counter: str, server: ProgramEnd | None = None) -> None:
        """`counter` is `sent` or `received`. Without a server the program may also print other
        lines, which do not begin with a brace."""
        super().__init__(server or answers, answers)
        self._has_server = server is not None
        self._counter = counter
        self._answers: list[PolledCounters] = []
        self._before = 0  # frames that its port had counted before the run
        self.driver = ""
        self.sends = False

    def wait_ready(self, timeout_s: float) -> None:
        """See `Polled`."""
        deadline = time.monotonic() + timeout_s
        while (answer := self._line(_POLL_S)) is None:
            if time.monotonic() > deadline:
                raise self.program.failed(f"does not answer after {timeout_s:.0f} s")
        self.version, self.driver = (
            encodable(str(answer.get(key, ""))[:SHOWN_CHARACTERS]) for key in ("version", "driver")
        )

    def reset(self, timeout_s: float) -> None:
        """See `Polled`."""
        self.read()
        self.wait_answer(timeout_s)
        self.forget()

    def start(self, duration_s: float, timeout_s: float) -> None:
        """See `Polled`."""
        self.ask({"do": "start", "duration_s": duration_s})
        self.wait_answer(timeout_s)

    def stop(self, timeout_s: float) -> None:
        """See `Polled`."""
        self.wait_answer(timeout_s)
        self.ask({"do": "stop"})
        self.wait_answer(timeout_s)

    def read(self) -> None:
        """See `Polled`."""
        self.ask({"do": "read"})

    def ask(self, command: Mapping[str, Any]) -> None:
        """Send the client a command; it answers with counters."""
        self.waits = True
        self.client.order(json.dumps(command))

    def take(self, timeout_s: float = 0.0) -> None:
        """See `Polled`."""
        if (line := self._line(timeout_s)) is None:
            return
        answer = self.client.parse(PolledCounters, line)
        if self._answers and answer.t_ns < self._answers[-1].t_ns:
            raise TrialFailed(self.client.say("reported counters that are older than the last"))
        self._answers.append(answer)
        self.waits, self.sends, self.last_ns = False, answer.sends, answer.t_ns

    def forget(self) -> None:
        """Count from the last answer on."""
        self._answers = self._answers[-1:]
        self._before = self._count(self._answers[0])

    @property
    def frames(self) -> int:
        """See `Polled`."""
        return self._count(self._answers[-1]) - self._before

    def counts(self, begun_ns: int, lasted_ns: int) -> tuple[CountedInterval, ...]:
        """See `Polled`."""
        return tuple(
            CountedInterval(
                last.t_ns - begun_ns, last.t_ns - first.t_ns, self._count(last) - self._count(first)
            )
            for first, last in pairwise(self._answers)
            if begun_ns <= first.t_ns < last.t_ns <= begun_ns + lasted_ns
        )

    def report(self) -> dict[str, Any]:
        """See `Polled`."""
        return {"driver": self.driver, **self._answers[-1].model_dump(exclude_none=True)}

    def _count(self, answer: PolledCounters) -> int:
        return answer.sent if self._counter == "sent" else answer.received

    def _line(self, timeout_s: float) -> dict[str, Any] | None:
        if self._has_server and self.program.gather(0.0):
            raise self.program.failed("ended in mid-run")
        if (line := self.client.next_line(timeout_s)) is None:
            return None
        if not self._has_server and not line.startswith("{"):
            return None
        content = self.client.decode(line)
        if not isinstance(content, dict):
            raise TrialFailed(
                self.client.say(f"printed something other than a JSON object: {one_line(line)}")
            )
        if "error" in content:
            raise TrialFailed(self.client.say(f"failed: {one_line(str(content['error']))}"))
        return content
