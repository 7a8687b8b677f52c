"""What a trial costs in CPU time: read from the kernel before and after, never sampled inside.

Units are cores used: CPU seconds per second of wall time. The kernel's softirq time is
machine-wide (on veth paths it is where an in-kernel switch works), in ticks of 10 ms.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmark.results.record import CpuCost

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuReading:
    """One look at the clocks."""

    wall_s: float
    switch_s: float | None  # None: the switch has no process of its own
    softirq_s: float

    @classmethod
    def take(cls, switch_pids: Sequence[int]) -> CpuReading:
        """Read the CPU time of the switch's processes and of softirqs, since boot."""
        return cls(
            wall_s=time.monotonic(),
            switch_s=sum(process_cpu_s(pid) for pid in switch_pids) if switch_pids else None,
            softirq_s=softirq_s(),
        )


def process_cpu_s(pid: int) -> float:
    """User plus system seconds of a process with all its threads; 0 when it is gone.

    Read from schedstat of every thread (nanoseconds) where the kernel has it: `stat` counts
    in ticks, too coarse for short trials.
    """
    total_ns = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total_ns += int((task / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _process_ticks(pid) / _TICKS_PER_S
    return total_ns / 1e9


def _process_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def softirq_s() -> float:
    """Machine-wide softirq seconds since boot (field 7 of the `cpu` line of /proc/stat)."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[7]) / _TICKS_PER_S


def cost(before: CpuReading, after: CpuReading, results: Iterable[dict[str, Any]]) -> CpuCost:
    """Cores used between two readings; `results` are the engines' own `result` events."""
    wall_s = after.wall_s - before.wall_s
    applications = run_delay = 0.0
    for result in results:
        cpu = result["cpu"]
        engine_wall = cpu["wall_ns"] or 1
        applications += cpu["cpu_ns"] / engine_wall
        run_delay = max(run_delay, cpu.get("run_delay_ns", 0) / engine_wall)
    switch = (
        (after.switch_s - before.switch_s) / wall_s
        if before.switch_s is not None and after.switch_s is not None
        else None
    )
    return CpuCost(
        switch_cores_used=switch,
        applications_cores_used=applications,
        softirq_cores_used=(after.softirq_s - before.softirq_s) / wall_s,
        run_delay_share=run_delay,
    )
