"""CPU time as the kernel counts it: of a machine, of processes, of softirqs.

It is read before and after, never sampled in between. The module uses nothing beyond the standard
library, because the agent on another host runs it, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_STAT = Path("/proc/stat")
_SOFTIRQ, _STOLEN = 6, 7  # fields of its lines, after the name
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED in the low bits of a clock id, the pid inverted above them


@dataclass(frozen=True, slots=True)
class MachineTime:
    """Seconds of all cores together since boot, from /proc/stat (proc(5))."""

    busy_s: float  # user, nice, system and irq time: all that is done, but softirqs
    softirq_s: float
    stolen_s: float  # the hypervisor gave our core to somebody else
    softirq_by_core_s: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def read(cls) -> MachineTime:
        """Read the CPU time from /proc/stat, in ticks of 10 ms."""
        clocks = _clocks()
        user, nice, system, _idle, _iowait, irq, softirq, stolen = clocks["cpu"]
        return cls(
            busy_s=user + nice + system + irq,
            softirq_s=softirq,
            stolen_s=stolen,
            softirq_by_core_s=_by_core(clocks, _SOFTIRQ),
        )


def stolen_by_core_s() -> dict[int, float]:
    """Seconds since boot in which the hypervisor gave each core to somebody else."""
    return _by_core(_clocks(), _STOLEN)


def busy_cores(over_s: float, stat: Path = _STAT) -> float:
    """How many cores were in use, by any program, on average over so many seconds from now. Time
    that the hypervisor took from a virtual machine (steal) counts as in use.

    Not the load average: that remembers for minutes what has ended, such as our own last trial."""
    before, begun_s = _used_s(stat), time.monotonic()
    time.sleep(over_s)
    return (_used_s(stat) - before) / (time.monotonic() - begun_s)


def _used_s(stat: Path) -> float:
    user, nice, system, _idle, _iowait, *others = _clocks(stat)["cpu"]
    return user + nice + system + sum(others)


def _clocks(stat: Path = _STAT) -> dict[str, list[float]]:
    """The clocks, in seconds, of `cpu` (all cores together), `cpu0` and so on; a guest's time is
    in user and nice."""
    rows = (line.split() for line in stat.read_text().splitlines() if line.startswith("cpu"))
    return {name: [int(one) / _TICKS_PER_S for one in ticks[:8]] for name, *ticks in rows}


def _by_core(clocks: Mapping[str, Sequence[float]], field: int) -> dict[int, float]:
    return {int(name[3:]): times[field] for name, times in clocks.items() if name != "cpu"}


@dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU times at one moment."""

    wall_s: float
    switch_s: Mapping[int, float] | None  # by process; None: the switch has none of its own
    bench_s: float
    machine: MachineTime
    # Part of the softirq time: what the kernel put off to a thread; None: it cannot be seen here.
    ksoftirqd_s: float | None = None
    machines_s: float = 0.0  # of the processes of virtual machines, their guests included

    @classmethod
    def take(cls, switch_pids: Sequence[int], machine_pids: Sequence[int] = ()) -> CpuReading:
        """Read the CPU time of the switch's processes, of virtual machines' and of softirqs,
        since boot."""
        return cls(
            wall_s=time.monotonic(),
            switch_s={pid: process_cpu_s(pid) for pid in switch_pids} if switch_pids else None,
            bench_s=time.process_time(),
            machine=MachineTime.read(),
            ksoftirqd_s=softirq_threads_s(),
            machines_s=sum(map(process_cpu_s, machine_pids)),
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


WANTS_ITS_CORE = 0.5  # of the time run or waited: such a thread polls


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """How long the threads of some processes have run, and have waited for a core, since they began
    (/proc/PID/task/TID/schedstat). Time that the hypervisor took is not included."""

    at_s: float
    by_thread: Mapping[int, tuple[float, float]]  # seconds run, seconds waited

    @classmethod
    def of(cls, pids: Iterable[int]) -> ThreadTimes:
        """Read the times now; threads that have ended are left out."""
        found = {}
        for pid in pids:
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with suppress(OSError, ValueError, IndexError):
                    ran_ns, waited_ns = path.read_text().split()[:2]
                    found[int(path.parent.name)] = int(ran_ns) / 1e9, int(waited_ns) / 1e9
        return cls(time.monotonic(), found)

    def kept_waiting_s(self, later: ThreadTimes) -> float:
        """The longest time in seconds that a polling thread waited for its core until `later`; 0
        without any."""
        whole_s = later.at_s - self.at_s
        longest_s = 0.0
        for thread, (ran_s, waited_s) in later.by_thread.items():
            ran_before_s, waited_before_s = self.by_thread.get(thread, (ran_s, waited_s))
            waited = waited_s - waited_before_s
            if ran_s - ran_before_s + waited > WANTS_ITS_CORE * whole_s:
                longest_s = max(longest_s, waited)
        return min(longest_s, whole_s)

    def waiting_share(self, later: ThreadTimes) -> float:
        """The share of the time that was spent waiting for a core."""
        whole_s = later.at_s - self.at_s
        return self.kept_waiting_s(later) / whole_s if whole_s > 0 else 0.0


def softirq_threads_s() -> float | None:
    """Seconds that the kernel's softirq threads have run since boot, all cores together; None if
    they are not visible here, as in a pid namespace."""
    return sum(map(_kernel_thread_s, _ksoftirqd())) if _ksoftirqd() else None


@cache
def _ksoftirqd() -> tuple[int, ...]:
    """The kernel's softirq threads; they live as long as the machine runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_bytes().startswith(b"ksoftirqd/"):  # (any name is in there)
                found.append(int(path.parent.name))
    return tuple(found)


def _kernel_thread_s(pid: int) -> float:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return 0.0
