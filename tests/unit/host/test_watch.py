"""Watching the machine: the readings, and the findings from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.cli import doctor
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.host.cores import watch
from switchmark.host.cores.watch import MachineWatch, watch_machine
from switchmark.host.diagnosis import Level
from switchmark.host.watch_findings import findings
from switchmark.results.proving import usual_time_to_prove_s
from switchmark.statistics.defaults import BUDGET_S
from switchmark.statistics.states import LineTimes, Watched

TWO = LineTimes(fast_ns=25, slow_ns=180, border_ns=70)


class Host:
    """A host whose cores are 25 ns apart for 2 s, then 180 ns."""

    def __init__(self, answers: bool = True) -> None:
        self.asked: list[Sequence[str]] = []
        self.answers = answers

    def run(self, args: Sequence[str], **_: Any) -> Any:
        self.asked.append(args)
        if not self.answers:
            raise SwitchmarkError("no such command")
        line_ns = 25.0 if len(self.asked) // 20 % 2 == 0 else 180.0
        return SimpleNamespace(
            stdout=json.dumps({"lines_ns": [line_ns], "steps_ns": [0.3, 0.3]}) + "\n"
        )


@pytest.fixture(autouse=True)
def own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(watch.time, "sleep", lambda s: now.__setitem__(0, now[0] + max(s, 1e-3)))
    monkeypatch.setattr(watch.time, "process_time", lambda: 0.0)
    busy: Iterator[float] = iter([100.0, 106.0])
    monkeypatch.setattr(
        watch.MachineTime, "read", lambda: watch.MachineTime(next(busy), softirq_s=0, stolen_s=1)
    )
    usage = SimpleNamespace(ru_utime=0.0, ru_stime=0.0)
    monkeypatch.setattr(watch.resource, "getrusage", lambda _: usage)


def test_the_host_moves_the_cores() -> None:
    host = Host()
    watch = watch_machine(host, Path("/engine"), [1, 0], 10.0)  # type: ignore[arg-type]
    assert host.asked[0] == ["/engine", "cache-line", "0,1"]
    assert watch.lines is not None and watch.lines.lines is not None
    assert (watch.lines.lines.fast_ns, watch.lines.lines.slow_ns) == pytest.approx((25, 180))
    assert watch.lines.dwell_s == pytest.approx(2.0, rel=0.3)
    assert watch.others_share == pytest.approx(6 / (2 * 10), rel=0.01)
    assert (watch.stolen_share, watch.slowed_share, watch.clock) == (0.0, 0.0, None)


@pytest.mark.parametrize("cores", [[0], [0, 1]])
def test_missing_readings_are_reported(cores: list[int]) -> None:
    watch = watch_machine(Host(answers=False), Path("/engine"), cores, 1.0)  # type: ignore[arg-type]
    assert watch.lines is None
    (line, *_) = findings(watch, 0.05, None)
    assert line.value == ("one core" if len(cores) == 1 else "the engine could not read it")


def seen_on(lines: Watched, others: float = 0.0, slowed: float = 0.0) -> MachineWatch:
    clock = LineTimes(0.3, 0.6, 0.42) if slowed else None
    return MachineWatch(10.0, (0, 1), lines, clock, slowed, 0.0, others)


def findings_of(watch: MachineWatch, proof_s: float | None = 80.0) -> dict[str, tuple[Level, str]]:
    return {one.topic: (one.level, one.meaning) for one in findings(watch, 0.05, proof_s)}


def test_findings_of_a_disturbed_machine() -> None:
    found = findings_of(seen_on(Watched(TWO, 30.0, 12.0, 2), others=0.45, slowed=0.7))
    line = "the host moves your cores about every 6 s, and rates depend on the time of a cache line"
    assert found["cache line"][1].startswith(line)
    assert "70% of the time" in found["CPU speed"][1]
    assert found["others"][0] is Level.POOR
    assert "distinguished in about 1 min 20 s on idle cores" in found["proof"][1]


def test_findings_of_a_quiet_machine() -> None:
    found = findings_of(seen_on(Watched(None, 26.0, 10.0, 0)))
    assert {level for level, _ in found.values()} == {Level.GOOD}
    assert "CPU speed" not in found
    assert found["proof"][1].endswith("in about 1 min 20 s")
    assert "prove: 10%" in findings_of(seen_on(Watched(None, 26.0, 10.0, 0)), None)["proof"][1]


def test_proof_takes_longer_the_more_often_the_state_changes() -> None:
    times = [usual_time_to_prove_s(dwell_s) for dwell_s in (None, 12.0, 6.0, 2.0)]
    assert times == sorted(times, key=lambda time_s: time_s or BUDGET_S)
    assert times[0] is not None and 30 < times[0] < 180
    larger = usual_time_to_prove_s(6.0, prove=0.25)
    assert larger is not None and larger < (times[2] or 0)
    assert usual_time_to_prove_s(0.1) is None


def test_time_without_a_bound_is_text() -> None:
    with pytest.raises(UsageError, match="--watch: '5x'"):
        doctor.command(watch="5x")
