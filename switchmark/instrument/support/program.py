"""Programs of foreign generators: their path, their output, their end."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.host.host import Spawned
from switchmark.host.kernel.sockets import is_bound
from switchmark.host.process_output import NOTHING, last_lines, output_of
from switchmark.host.programs import UNKNOWN, VERSION, ProgramPlace, not_installed, with_folder
from switchmark.model.capabilities import Availability, available

if TYPE_CHECKING:
    from switchmark.instrument.support.base import Station

MOST_OUTPUT_CHARACTERS = 64 << 20
_POLL_S = 0.01
SHOWN_CHARACTERS = 160

M = TypeVar("M", bound=BaseModel)


def find(
    program: str, package: str, options: Sequence[str] = ("--version",), says: str = VERSION
) -> Availability:
    """Return the version of a program in PATH, or how to install it."""
    return not_installed(program, package) or available(version_of(program, options, says))


@cache
def version_of(program: str, options: Sequence[str] = ("--version",), says: str = VERSION) -> str:
    """Return the version that a program prints on either output; `says` is its pattern."""
    found = re.search(says, output_of([program, *options]))
    return found[1] if found else UNKNOWN


class ThisHost:
    """A `ProgramPlace`: the host of the bench."""

    def is_bound(self, pid: int, protocol: str, port: int) -> bool:
        """See `ProgramPlace`."""
        return is_bound(protocol, port, pid)

    def version_of(
        self, program: str, options: tuple[str, ...] = ("--version",), says: str = VERSION
    ) -> str:
        """See `ProgramPlace`."""
        return version_of(program, options, says)

    def make_folder(self, parent: Path, name: str) -> Path:
        """See `ProgramPlace`."""
        folder = parent / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def write(self, path: Path, text: str) -> None:
        """See `ProgramPlace`."""
        path.write_text(text)


THIS_HOST = ThisHost()


class ProgramEnd:
    """A program at one end, whose output is collected until it ends."""

    def __init__(
        self,
        name: str,
        node: str,
        command: list[str],
        spawned: Spawned,
        place: ProgramPlace = THIS_HOST,
    ) -> None:
        """`name` is its name in messages, e.g. `iperf3 server`."""
        self.name, self.node, self.command, self.spawned = name, node, command, spawned
        self._place = place
        self._lines: list[str] = []
        self._characters = 0

    @classmethod
    def start(cls, name: str, station: Station, command: list[str]) -> ProgramEnd:
        """Start a program at an end."""
        return cls(name, station.node, command, station.spawn(command), station.place)

    def say(self, text: str) -> str:
        """Return a message about it, of one line."""
        return f"{self.name} in {self.node} {text}"

    def failed(self, text: str) -> TrialFailed:
        """Return an error about it, of one line, with its last line of output."""
        last = last_lines(self.spawned.stderr_tail() or "\n".join(self._lines[-3:]), 2)
        suffix = "" if last == NOTHING else f": {last[:SHOWN_CHARACTERS]}"
        return TrialFailed(self.say(f"{text}{suffix}"))

    def decode(self, text: str) -> Any:
        """Return the JSON that it printed. Raises TrialFailed for other output."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise TrialFailed(self.say(f"printed no JSON: {one_line(text)}")) from None

    def parse(self, model: type[M], printed: Any) -> M:
        """Return its output as a value of this model. Raises TrialFailed with the first error."""
        try:
            return model.model_validate(printed)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"])) or "its result"
            raise TrialFailed(self.say(f"printed {one_line(where)}: {first['msg']}")) from None

    def order(self, line: str) -> None:
        """Write a line to it. Raises TrialFailed with its last output if it does not read it."""
        try:
            self.spawned.write_line(line)
        except SwitchmarkError:
            self.gather(0.5)
            raise self.failed("takes no more commands") from None

    def gather(self, timeout_s: float) -> bool:
        """Read its output for this time; return True when it has closed its output."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self.spawned.read_line(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                return False
            if line is None:
                return True
            self._lines.append(line)
            self._characters += len(line) + 1
            if self._characters > MOST_OUTPUT_CHARACTERS:
                raise TrialFailed(self.say("prints without end"))

    def next_line(self, timeout_s: float) -> str | None:
        """Return its next line; None after the timeout. Raises TrialFailed if it has ended."""
        try:
            line = self.spawned.read_line(timeout_s)
        except TimeoutError:
            return None
        if line is None:
            raise self.failed(f"ended with exit code {self.spawned.terminate(grace_s=0.5)}")
        self._lines = [*self._lines[-20:], line]
        return line

    @property
    def output(self) -> str:
        """Its output so far."""
        return "\n".join(self._lines)

    def wait_end(self, timeout_s: float) -> None:
        """Read its output until its end, which must come in time and without an error."""
        deadline = time.monotonic() + timeout_s
        if not self.gather(timeout_s):
            raise self.failed(f"did not end within {timeout_s:.0f} s")
        try:
            code = self.spawned.wait(max(1.0, deadline - time.monotonic()))
        except TimeoutError:
            raise self.failed("closed its output and did not end") from None
        if code != 0:
            raise self.failed(f"ended with exit code {code}")

    def wait_listening(self, protocol: str, port: int, timeout_s: float) -> None:
        """Wait until it has a socket on this port (of its network namespace), without sending a
        frame."""
        deadline = time.monotonic() + timeout_s
        while not self._place.is_bound(self.spawned.pid, protocol, port):
            if (code := self.spawned.poll()) is not None:
                self.gather(0.5)
                raise self.failed(f"ended with exit code {code} before it listened")
            if time.monotonic() > deadline:
                raise self.failed(f"does not listen on port {port} after {timeout_s:.0f} s")
            time.sleep(_POLL_S)

    def close(self) -> None:
        """End it. Idempotent."""
        self.spawned.terminate(grace_s=1.0)


def held_program(name: str, station: Station, command: list[str]) -> ProgramEnd:
    """Return a program that starts with the first line of its standard input, so that the start of
    a container is not in the measurement."""
    hold = ["sh", "-c", 'read -r _ && exec "$@"', "sh", with_folder(command[0]), *command[1:]]
    return ProgramEnd(name, station.node, command, station.spawn(hold))


def one_line(text: str) -> str:
    """Return the beginning of a text for messages, on one line."""
    return " ".join(text.split())[:SHOWN_CHARACTERS] or "nothing"


class ServerProgram:
    """A server that is one program, from its construction until `close`."""

    def __init__(self, end: ProgramEnd) -> None:
        self._end = end

    def check(self) -> None:
        """Raise TrialFailed if it has ended."""
        if self._end.spawned.poll() is not None:
            raise self._end.failed("ended in mid-run")

    def process_ids(self) -> Sequence[int]:
        """Return its process while it runs."""
        return running(self._end)

    def close(self) -> None:
        """End it. Idempotent."""
        close_all(self._end)


def running(*ends: ProgramEnd | None) -> list[int]:
    """Return the process ids of the programs that run."""
    return [end.spawned.pid for end in ends if end and end.spawned.poll() is None]


def close_all(*ends: ProgramEnd | None) -> None:
    """End the programs that were started."""
    for end in ends:
        if end is not None:
            end.close()
