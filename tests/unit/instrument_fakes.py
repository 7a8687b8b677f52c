"""A program of a foreign instrument that prints recorded output, or other text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

from switchmark.errors import SwitchmarkError
from switchmark.function.registry import table_of
from switchmark.function.support.load_frames import LoadFrame, load_frames
from switchmark.function.support.table import FunctionTable
from switchmark.instrument.support.program import ProgramEnd
from switchmark.model.functions import read_functions
from switchmark.model.trial import Trial
from switchmark.scenario.registry import expand

RECORDED = Path(__file__).parent / "instruments"


def recorded(name: str) -> str:
    """Return the output of a real program (iperf3 3.12, sockperf 3.7, testpmd 22.11)."""
    return (RECORDED / name).read_text()


class FakeProgram:
    """A `Spawned` that prints its lines, then ends; `answer` prints more for a line it is given."""

    def __init__(
        self,
        printed: str,
        exit_code: int = 0,
        stderr: str = "",
        answer: Callable[[str], str] | None = None,
    ) -> None:
        self.pid = 1
        self.lines = deque(printed.splitlines())
        self.exit_code = exit_code
        self.stderr = stderr
        self.answer = answer
        self.written: list[str] = []
        self.ended = answer is None

    def write_line(self, line: str) -> None:
        if self.ended or self.answer is None:
            raise SwitchmarkError("program: takes no more commands: broken pipe")
        self.written.append(line)
        self.lines.extend(self.answer(line).splitlines())

    def close_input(self) -> None:
        self.ended = True

    def read_line(self, timeout_s: float) -> str | None:
        if self.lines:
            return self.lines.popleft()
        if self.ended:
            return None
        raise TimeoutError

    def poll(self) -> int | None:
        return self.exit_code if self.ended and not self.lines else None

    def wait(self, timeout_s: float) -> int:
        return self.exit_code

    def terminate(self, grace_s: float = 2.0) -> int:
        self.ended = True
        return self.exit_code

    def stderr_tail(self) -> str:
        return self.stderr


def program(printed: str, name: str = "iperf3 client", exit_code: int = 0) -> ProgramEnd:
    """Return a program that has ended."""
    end = ProgramEnd(name, "tx0", ["iperf3"], FakeProgram(printed, exit_code))
    assert end.gather(0.0)
    return end


def function_load(function: str, **fields: object) -> tuple[FunctionTable, tuple[LoadFrame, ...]]:
    """Return the neutral table of a trial, and the load of an instrument."""
    values: dict[str, object] = {"packet_size_bytes": 128, **fields}
    trial = Trial.model_validate({
        "dimension": "throughput", "switch": "linux-router", "function": read_functions(function),
        **values,
    })  # fmt: skip
    table = table_of(trial, expand(trial))
    assert table is not None
    return table, load_frames(table, trial)
