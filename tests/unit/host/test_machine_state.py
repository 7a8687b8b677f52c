"""The state of the machine around a trial: recorded values, missing values, and a missing
answer."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from switchmark.errors import SwitchmarkError
from switchmark.host.cores.machine_state import MOST_CORES, StateReader, cores_used
from switchmark.model.machine_state import MachineState
from switchmark.model.placement import Placement
from tests.unit.trial_fakes import FakeEngine


def placement(switch: list[int], applications: dict[str, list[int]]) -> Placement:
    return Placement(
        switch_cores=switch, application_cores=applications, bench_cores=[0], oversubscribed=False,
        reason="", idle="poll",
    )  # fmt: skip


class Host:
    """A host that starts one process: this process."""

    name = "fake"

    def __init__(self, *lines: str, fails: bool = False) -> None:
        self.process = FakeEngine(answers={"line": lambda _: []}, lines=deque(lines))
        self.fails = fails
        self.asked: list[list[str]] = []

    def spawn(self, args: Sequence[str], **_: Any) -> FakeEngine:
        self.asked.append(list(args))
        if self.fails:
            raise SwitchmarkError("no such program")
        return self.process


def reading(line_ns: float | None) -> str:
    return json.dumps({"v": 2, "lines_ns": [line_ns], "steps_ns": [0.3, 0.5]})


def probe(host: Host, cores: Sequence[int] = (0, 1)) -> StateReader:
    reader = StateReader(host, lambda: Path("/engine"), cores)  # type: ignore[arg-type]
    reader.wait_ready()
    return reader


def test_first_reading_is_not_used_for_a_later_one() -> None:
    host = Host(reading(30.0), reading(150.0))
    state = probe(host).read()
    assert state.line_ns == 150.0
    assert state.steps_ns == [0.3, 0.5]
    assert host.asked == [["/engine", "cache-line", "0,1"]]


def test_unavailable_core_has_no_distance() -> None:
    state = probe(Host(reading(30.0), reading(None))).read()
    assert state.lines_ns == [None]
    assert state.line_ns is None


def test_silent_program_is_not_queried_again() -> None:
    host = Host(reading(30.0))
    asks = probe(host)
    assert asks.read().lines_ns == []
    host.process.lines.append(reading(150.0))
    assert asks.read().lines_ns == []
    assert host.process.exit_code is not None


def test_missing_program_leaves_the_other_values() -> None:
    state = probe(Host(fails=True)).read()
    assert state.lines_ns == []
    assert state.at_ns > 0


def test_one_core_has_no_distance() -> None:
    host = Host(reading(1.0))
    assert probe(host, [3]).read().lines_ns == []
    assert host.asked == []


def test_longest_distance_counts() -> None:
    state = MachineState(at_ns=1, cores=[0, 1, 2], lines_ns=[30.0, 150.0])
    assert state.line_ns == 150.0


def test_each_core_is_measured_once_beginning_with_the_switch() -> None:
    used = placement([4, 5], {"a0": [1], "b0": [1], "a1": [2]})
    assert cores_used(used) == [4, 5, 1, 2]
    many = placement([], {f"n{k}": [k] for k in range(40)})
    assert cores_used(many) == list(range(MOST_CORES))
