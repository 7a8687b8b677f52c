"""CPU time of the machine, of processes and of softirqs, as the kernel counts it.

It is read before and after a trial, never sampled in between. The module needs only the standard
library, because the agent on a remote host also runs it.
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

    busy_s: float  # user, nice, system and irq time: all work except softirqs
    softirq_s: float
    stolen_s: float  # time in which the hypervisor gave the cores to other guests
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
    """Return the seconds since boot in which the hypervisor gave each core to other guests."""
    return _by_core(_clocks(), _STOLEN)


def busy_cores(over_s: float, stat: Path = _STAT) -> float:
    """Return the mean number of cores that any program uses during the next `over_s` seconds.

    Time that the hypervisor took from a virtual machine (steal) counts as in use. The load average
    cannot be used: for minutes it contains programs that have ended, such as the last trial."""
    before, begun_s = _used_s(stat), time.monotonic()
    time.sleep(over_s)
    return (_used_s(stat) - before) / (time.monotonic() - begun_s)


def _used_s(stat: Path) -> float:
    user, nice, system, _idle, _iowait, *others = _clocks(stat)["cpu"]
    return user + nice + system + sum(others)


def _clocks(stat: Path = _STAT) -> dict[str, list[float]]:
    """Return the clocks in seconds of `cpu` (all cores together), `cpu0` and so on.

    The time of guests is in user and nice."""
    rows = (line.split() for line in stat.read_text().splitlines() if line.startswith("cpu"))
    return {name: [int(tick) / _TICKS_PER_S for tick in ticks[:8]] for name, *ticks in rows}


def _by_core(clocks: Mapping[str, Sequence[float]], field: int) -> dict[int, float]:
    return {int(name[3:]): times[field] for name, times in clocks.items() if name != "cpu"}


@dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU times at one moment."""

    wall_s: float
    switch_s: Mapping[int, float] | None  # by PID; None: the switch has no processes
    bench_s: float
    machine: MachineTime
    # The part of the softirq time that the kernel's threads did; None: it is not visible.
    ksoftirqd_s: float | None = None
    machines_s: float = 0.0  # CPU time of virtual machines' processes, with their guests

    @classmethod
    def take(cls, switch_pids: Sequence[int], machine_pids: Sequence[int] = ()) -> CpuReading:
        """Read the CPU times of the switch, of virtual machines and of softirqs since boot."""
        return cls(
            wall_s=time.monotonic(),
            switch_s={pid: process_cpu_s(pid) for pid in switch_pids} if switch_pids else None,
            bench_s=time.process_time(),
            machine=MachineTime.read(),
            ksoftirqd_s=softirq_threads_s(),
            machines_s=sum(map(process_cpu_s, machine_pids)),
        )


def process_cpu_s(pid: int) -> float:
    """Return the user and system seconds of a process with all its threads, also ended threads.

    0 if the process has ended. The CPU clock of the process has nanoseconds; /proc/PID/stat counts
    in ticks, which is too coarse for short trials. The clock ID is computed as
    clock_getcpuclockid(3) does, which Python lacks."""
    try:
        return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    except OSError:
        return 0.0


POLLING_SHARE = 0.5  # a thread that runs or waits for this share of the time polls


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """The time that threads of some processes have run, and have waited for a core, since they
    started (/proc/PID/task/TID/schedstat). Time that the hypervisor took is not included."""

    at_s: float
    by_thread: Mapping[int, tuple[float, float]]  # seconds run, seconds waited

    @classmethod
    def of(cls, pids: Iterable[int]) -> ThreadTimes:
        """Read the times now; threads that have ended are left out."""
        times = {}
        for pid in pids:
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with suppress(OSError, ValueError, IndexError):
                    ran_ns, waited_ns = path.read_text().split()[:2]
                    times[int(path.parent.name)] = int(ran_ns) / 1e9, int(waited_ns) / 1e9
        return cls(time.monotonic(), times)

    def ran_s(self, later: ThreadTimes) -> float:
        """Return the seconds that all threads have run until `later`; threads that started
        meanwhile count from their start."""
        return sum(
            max(0.0, ran_s - self.by_thread.get(thread, (0.0, 0.0))[0])
            for thread, (ran_s, _) in later.by_thread.items()
        )

    def kept_waiting_s(self, later: ThreadTimes) -> float:
        """Return the longest time in seconds that a polling thread waited for its core until
        `later`; 0 if no thread polls."""
        whole_s = later.at_s - self.at_s
        longest_s = 0.0
        for thread, (ran_s, waited_s) in later.by_thread.items():
            ran_before_s, waited_before_s = self.by_thread.get(thread, (ran_s, waited_s))
            waited = waited_s - waited_before_s
            if ran_s - ran_before_s + waited > POLLING_SHARE * whole_s:
                longest_s = max(longest_s, waited)
        return min(longest_s, whole_s)

    def waiting_share(self, later: ThreadTimes) -> float:
        """Return the share of the time that was spent waiting for a core."""
        whole_s = later.at_s - self.at_s
        return self.kept_waiting_s(later) / whole_s if whole_s > 0 else 0.0


def softirq_threads_s() -> float | None:
    """Return the seconds that the kernel's softirq threads have run since boot, on all cores.

    None if the threads are not visible, for example in a PID namespace."""
    return sum(map(_kernel_thread_s, _ksoftirqd())) if _ksoftirqd() else None


@cache
def _ksoftirqd() -> tuple[int, ...]:
    """Return the PIDs of the kernel's softirq threads, which exist while the machine runs."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            # Names of other programs may have any encoding.
            if path.read_bytes().startswith(b"ksoftirqd/"):
                pids.append(int(path.parent.name))
    return tuple(pids)


def _kernel_thread_s(pid: int) -> float:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return 0.0
