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
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED in the low bits of a clock id, the pid inverted above them


@dataclass(frozen=True, slots=True)
class MachineTime:
    """Seconds of all cores together since boot, from the `cpu` line of /proc/stat (proc(5))."""

    busy_s: float  # user, nice, system and irq time: all that is done, but softirqs
    softirq_s: float
    stolen_s: float  # the hypervisor gave our core to somebody else

    @classmethod
    def read(cls) -> MachineTime:
        """As the kernel counts it, in ticks."""
        line = Path("/proc/stat").read_text().split("\n", 1)[0]
        user, nice, system, _idle, _iowait, irq, softirq, stolen = map(int, line.split()[1:9])
        return cls(
            busy_s=(user + nice + system + irq) / _TICKS_PER_S,
            softirq_s=softirq / _TICKS_PER_S,
            stolen_s=stolen / _TICKS_PER_S,
        )


@dataclass(frozen=True, slots=True)
class CpuReading:
    """One look at the clocks."""

    wall_s: float
    switch_s: float | None  # None: the switch has no process of its own
    bench_s: float
    machine: MachineTime

    @classmethod
    def take(cls, switch_pids: Sequence[int]) -> CpuReading:
        """Read the CPU time of the switch's processes and of softirqs, since boot."""
        return cls(
            wall_s=time.monotonic(),
            switch_s=sum(process_cpu_s(pid) for pid in switch_pids) if switch_pids else None,
            bench_s=time.process_time(),
            machine=MachineTime.read(),
        )


def process_cpu_s(pid: int) -> float:
    """User plus system seconds of a process with all its threads, those that have ended
    included; 0 when the process is gone.

    Read from its CPU clock (nanoseconds; the id is what clock_getcpuclockid(3) gives, which
    Python does not have): /proc/PID/stat counts in ticks, too coarse for short trials."""
    try:
        return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    except OSError:
        return 0.0


def cost(before: CpuReading, after: CpuReading, results: Iterable[dict[str, Any]]) -> CpuCost:
    """Cores used between two readings; `results` are the engines' own `result` events.

    What the machine did beyond switch, applications and bench is other programs' doing, and
    disturbs. Softirqs may be counted in the process they interrupted or apart from it, as the
    kernel was built; they are left out of that sum, which can then only be too small."""
    wall_s = after.wall_s - before.wall_s
    applications_s = run_delay = 0.0
    for result in results:
        cpu = result["cpu"]
        applications_s += cpu["cpu_ns"] / 1e9
        run_delay = max(run_delay, cpu.get("run_delay_ns", 0) / (cpu["wall_ns"] or 1))
    switch_s = (
        max(0.0, after.switch_s - before.switch_s)  # less than 0: it has died meanwhile
        if before.switch_s is not None and after.switch_s is not None
        else None
    )
    busy_s = after.machine.busy_s - before.machine.busy_s
    softirq_s = after.machine.softirq_s - before.machine.softirq_s
    bench_s = after.bench_s - before.bench_s
    trial_s = applications_s + (switch_s or 0.0)
    return CpuCost(
        switch_cores_used=None if switch_s is None else switch_s / wall_s,
        applications_cores_used=applications_s / wall_s,
        softirq_cores_used=softirq_s / wall_s,
        run_delay_share=min(1.0, run_delay),  # of several threads that wait at once, too
        # A process that is interrupted by a softirq may be charged with it, too; the machine's
        # own sum has it once.
        total_cores_used=max(trial_s, min(trial_s + softirq_s, busy_s + softirq_s - bench_s))
        / wall_s,
        others_cores_used=max(0.0, busy_s - trial_s - bench_s) / wall_s,
        stolen_cores=(after.machine.stolen_s - before.machine.stolen_s) / wall_s,
    )
