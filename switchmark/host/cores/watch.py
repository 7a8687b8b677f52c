"""Watches the machine for some seconds, to estimate how it would disturb measurements.

Ten times a second the engine measures the time of a cache line between two cores. The kernel
reports the share of all cores that other guests of the hypervisor and other programs used.
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
ANSWER_S = 5.0  # the time limit of a reading, on a busy machine
SLOWED = 1.25  # a core is slowed down if its step takes this many times the shortest step


@dataclass(frozen=True, slots=True)
class MachineWatch:
    """The observations. Shares refer to all usable cores together."""

    watched_s: float
    cores: tuple[int, ...]
    lines: Watched | None  # None: one core, or no engine to read with
    clock: LineTimes | None  # two levels of a core's step, in ns; None: one level
    slowed_share: float  # share of readings of a core that were slower by a quarter or more
    stolen_share: float  # given to other guests
    others_share: float  # used by programs other than this one


def watch_machine(
    host: Host, engine: Path | None, cores: Sequence[int], seconds: float
) -> MachineWatch:
    """Watch for `seconds`. It changes nothing; its programs have ended when it returns."""
    used = tuple(sorted(cores)[:MOST_CORES])
    begun_s, before, cpu_before_s = time.monotonic(), MachineTime.read(), _process_s()
    times: list[float] = []
    lines: list[float] = []
    steps: list[float] = []
    while (now := time.monotonic()) - begun_s < seconds:
        line, core_steps = _reading(host, engine, used) if engine and len(used) > 1 else (None, [])
        steps += core_steps
        if line is not None:
            times.append(now - begun_s)
            lines.append(line)
        time.sleep(max(0.0, min(EVERY_S, begun_s + seconds - time.monotonic())))
    whole_s, after = time.monotonic() - begun_s, MachineTime.read()
    taken_s = after.busy_s + after.softirq_s - before.busy_s - before.softirq_s
    all_s = whole_s * max(1, len(cores))
    shortest = min(steps, default=0.0)
    return MachineWatch(
        watched_s=whole_s,
        cores=used,
        lines=watch(times, lines) if lines else None,
        clock=find_states(steps),
        slowed_share=sum(step > SLOWED * shortest for step in steps) / max(1, len(steps)),
        stolen_share=min(1.0, (after.stolen_s - before.stolen_s) / all_s),
        others_share=min(1.0, max(0.0, taken_s - (_process_s() - cpu_before_s)) / all_s),
    )


def _reading(host: Host, engine: Path, cores: Sequence[int]) -> tuple[float | None, list[float]]:
    """Return the longest time of a cache line, and each core's step; empty if it cannot be read."""
    with suppress(SwitchmarkError), parsing("cache-line"):
        command = [str(engine), "cache-line", ",".join(map(str, cores))]
        output = host.run(command, input_text="", timeout_s=ANSWER_S).stdout
        event = json.loads(output.splitlines()[0])
        lines = [line for line in event["lines_ns"] if line]
        return max(lines, default=None), [step for step in event["steps_ns"] if step]
    return None, []


def _process_s() -> float:
    """Return the CPU time in seconds of this process and of its ended children."""
    times = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return times + children.ru_utime + children.ru_stime
