"""One end of an instrument that a program of ours polls for its counters, in lines of JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.instrument.support.polling import wait_answer
from switchmark.instrument.support.program import SHOWN_CHARACTERS, ProgramEnd
from switchmark.instrument.support.reading import CountedInterval
from switchmark.language.printable import storable

MOST_FRAMES = 1 << 50  # beyond, it is no count of a run
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


class PolledEnd:
    """A program that answers, and the server that it asks, if that is another. `close` may be
    called at any time."""

    def __init__(self, answers: ProgramEnd, counter: str, server: ProgramEnd | None = None) -> None:
        """`counter` is `sent` or `received`. Only without a server may others than answers print:
        their lines do not begin with a brace."""
        self._client, self._has_server = answers, server is not None
        self.server = server or answers
        self._counter = counter
        self._answers: list[PolledCounters] = []
        self._before = 0  # frames that its port had counted before the run
        self.waits = False
        self.version = ""
        self.driver = ""

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the client has the port. Raises TrialFailed."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if (said := self._line(_POLL_S)) is not None:
                self.version, self.driver = (
                    storable(str(said.get(key, ""))[:SHOWN_CHARACTERS])
                    for key in ("version", "driver")
                )
                return
        raise self.server.failed(f"does not answer after {timeout_s:.0f} s")

    def ask(self, command: Mapping[str, Any]) -> None:
        """Give the client a command; it answers with counters."""
        self.waits = True
        try:
            self._client.spawned.write_line(json.dumps(command))
        except SwitchmarkError:
            raise self._client.failed("takes no more commands") from None

    def take(self, timeout_s: float = 0.0) -> None:
        """Read an answer, if there is one in this time."""
        if (said := self._line(timeout_s)) is None:
            return
        try:
            answer = PolledCounters.model_validate(said)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"])) or "its answer"
            raise TrialFailed(self._client.say(f"reported {where[:40]}: {first['msg']}")) from None
        if self._answers and answer.t_ns < self._answers[-1].t_ns:
            raise TrialFailed(self._client.say("reported counters that are older than the last"))
        self._answers.append(answer)
        self.waits = False

    def wait_answer(self, timeout_s: float) -> None:
        """Wait until it has answered with its counters. Raises TrialFailed."""
        wait_answer(self, self.server, timeout_s, _POLL_S)

    def forget(self) -> None:
        """Count from the last answer on."""
        self._answers = self._answers[-1:]
        self._before = self._count(self._answers[0])

    @property
    def sends(self) -> bool:
        """Whether its stream flows, by its last answer."""
        return bool(self._answers) and self._answers[-1].sends

    @property
    def last_ns(self) -> int:
        """The time of its last answer (CLOCK_MONOTONIC)."""
        return self._answers[-1].t_ns

    @property
    def frames(self) -> int:
        """Frames of the run, by its last answer."""
        return self._count(self._answers[-1]) - self._before

    def counts(self, begun_ns: int, lasted_ns: int) -> tuple[CountedInterval, ...]:
        """What came between answers in the time of the run; times are since its beginning."""
        pairs = zip(self._answers, self._answers[1:], strict=False)
        return tuple(
            CountedInterval(
                last.t_ns - begun_ns, last.t_ns - first.t_ns, self._count(last) - self._count(first)
            )
            for first, last in pairs
            if begun_ns <= first.t_ns < last.t_ns <= begun_ns + lasted_ns
        )

    def told(self) -> dict[str, Any]:
        """What the record says of this end."""
        return {"driver": self.driver, **self._answers[-1].model_dump(exclude_none=True)}

    def process_ids(self) -> Sequence[int]:
        """Both, while they run."""
        both = {one.spawned.pid: one.spawned for one in (self.server, self._client)}
        return [pid for pid, one in both.items() if one.poll() is None]

    def close(self) -> None:
        """End both. Idempotent."""
        self._client.close()
        self.server.close()

    def _count(self, answer: PolledCounters) -> int:
        return answer.sent if self._counter == "sent" else answer.received

    def _line(self, timeout_s: float) -> dict[str, Any] | None:
        if self._has_server and self.server.gather(0.0):
            raise self.server.failed("ended in mid-run")
        if (line := self._client.next_line(timeout_s)) is None:
            return None
        if not self._has_server and not line.startswith("{"):
            return None
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise TrialFailed(self._client.say(f"printed no JSON: {line[:SHOWN_CHARACTERS]}"))
        if "error" in said:
            raise TrialFailed(
                self._client.say(
                    f"failed: {' '.join(str(said['error']).split())[:SHOWN_CHARACTERS]}"
                )
            )
        return said
