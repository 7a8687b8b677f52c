"""Watches the machine for some seconds: what it would do to measurements.

Ten times a second the engine reads how long a cache line takes between two cores; the kernel tells
how much of all cores other guests of the hypervisor, and other programs, used meanwhile.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import SwitchmarkError
from switchmark.host.cores.cpu_time import MachineTime
from switchmark.host.cores.machine_state import MOST_CORES
from switchmark.host.host import Host
from switchmark.host.process_output import parsing
from switchmark.statistics.states import LineTimes, Watched, find_states, watch

EVERY_S = 0.1
ANSWER_S = 5.0  # of a reading on a machine that is busy
SLOWED = 1.25  # a core's step over its quickest: from here it is slowed down


@dataclass(frozen=True, slots=True)
class MachineWatch:
    """The observations. Shares are of all usable cores together."""

    watched_s: float
    cores: tuple[int, ...]
    lines: Watched | None  # None: one core, or no engine to read with
    clock: LineTimes | None  # two levels of a core's step, in ns; None: one
    slowed_share: float  # of the readings of cores: slower than the quickest by a quarter and more
    stolen_share: float  # given to other guests
    others_share: float  # used by programs other than this one


def watch_machine(
    host: Host, engine: Path | None, cores: Sequence[int], seconds: float
) -> MachineWatch:
    """Watch for `duration_s`. Only reads; programs are started and have ended when this returns."""
    used = tuple(sorted(cores)[:MOST_CORES])
    begun_s, before, own_s = time.monotonic(), MachineTime.read(), _own_s()
    times: list[float] = []
    lines: list[float] = []
    steps: list[list[float]] = []
    while (now := time.monotonic()) - begun_s < seconds:
        line, each = _reading(host, engine, used) if engine and len(used) > 1 else (None, [])
        steps.append(each)
        if line is not None:
            times.append(now - begun_s)
            lines.append(line)
        time.sleep(max(0.0, min(EVERY_S, begun_s + seconds - time.monotonic())))
    whole_s, after = time.monotonic() - begun_s, MachineTime.read()
    taken_s = after.busy_s + after.softirq_s - before.busy_s - before.softirq_s
    all_s = whole_s * max(1, len(cores))
    told = [step for each in steps for step in each]
    quickest = min(told, default=0.0)
    return MachineWatch(
        watched_s=whole_s,
        cores=used,
        lines=watch(times, lines) if lines else None,
        clock=find_states(told),
        slowed_share=sum(one > SLOWED * quickest for one in told) / len(told) if told else 0.0,
        stolen_share=min(1.0, (after.stolen_s - before.stolen_s) / all_s),
        others_share=min(1.0, max(0.0, taken_s - (_own_s() - own_s)) / all_s),
    )


def _reading(host: Host, engine: Path, cores: Sequence[int]) -> tuple[float | None, list[float]]:
    """The longest time of a cache line and each core's step; empty where it cannot be read."""
    with suppress(SwitchmarkError), parsing("cache-line"):
        asked = [str(engine), "cache-line", ",".join(map(str, cores))]
        answer = host.run(asked, input_text="", timeout_s=ANSWER_S).stdout
        told = json.loads(answer.splitlines()[0])
        lines = [line for line in told["lines_ns"] if line]
        return max(lines, default=None), [step for step in told["steps_ns"] if step]
    return None, []


def _own_s() -> float:
    """CPU time in seconds of this program and of the children that it has waited for."""
    times = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return times + children.ru_utime + children.ru_stime
