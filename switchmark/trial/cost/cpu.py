"""What a trial costs in CPU time: read from the kernel before and after, never sampled inside.

Units are cores used: CPU seconds per second of wall time. The kernel's softirq time is machine-wide
(on veth paths it is where an in-kernel switch works), in ticks of 10 ms.

A switch that polls uses its cores whole, whatever the load; one in the kernel works in its callers'
system calls and in softirqs. Only the whole can be compared between the two: the CPU time of
everything the trial needs, for each frame that passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from switchmark.engine.process import EngineProcess
from switchmark.host.cores.cpu_time import CpuReading, MachineTime
from switchmark.record.cost import CpuCost
from switchmark.switch.support.work import SwitchWork


@dataclass(frozen=True, slots=True)
class ApplicationCpu:
    """CPU time that an application, or a VNF, used while the traffic ran."""

    wall_ns: int
    cpu_ns: int  # user and system
    system_ns: int = 0
    run_delay_ns: int = 0  # it could have run, and waited for a core
    in_guest: bool = False

    @classmethod
    def of(cls, engine: EngineProcess) -> ApplicationCpu:
        """The CPU time of an engine over its last trial."""
        cpu = engine.result.cpu
        return cls(cpu.wall_ns, cpu.cpu_ns, cpu.system_ns, cpu.run_delay_ns, engine.in_guest)


def cost(
    before: CpuReading,
    after: CpuReading,
    applications: Iterable[ApplicationCpu],
    *,
    frames: int = 0,
    wire_ns_per_frame: float | None = None,
    work: SwitchWork | None = None,
) -> CpuCost:
    """Cores used between two readings; `frames` passed the switch meanwhile.

    CPU time beyond that of switch, applications and bench was used by other programs, and is a
    disturbance. The kernel counts softirqs either in the process they interrupted or apart from
    it, depending on its configuration; they are left out of that sum, which can then only be too
    small."""
    wall_s = after.wall_s - before.wall_s
    applications_s = after.machines_s - before.machines_s
    system_s = run_delay = 0.0
    for cpu in applications:
        # A guest's clock says what its engine used of the guest; the host, what that cost.
        applications_s += 0.0 if cpu.in_guest else cpu.cpu_ns / 1e9
        system_s += cpu.system_ns / 1e9
        run_delay = max(run_delay, cpu.run_delay_ns / (cpu.wall_ns or 1))
    switch_s = _switch_s(before, after)
    busy_s = after.machine.busy_s - before.machine.busy_s
    softirq_s = after.machine.softirq_s - before.machine.softirq_s
    bench_s = after.bench_s - before.bench_s
    trial_s = applications_s + (switch_s or 0.0)
    # A process that is interrupted by a softirq may be charged with it, too; the machine's own
    # sum has it once.
    total_s = max(trial_s, min(trial_s + softirq_s, busy_s + softirq_s - bench_s))
    return CpuCost(
        switch_cores_used=None if switch_s is None else switch_s / wall_s,
        applications_cores_used=applications_s / wall_s,
        applications_system_cores=system_s / wall_s,
        softirq_cores_used=softirq_s / wall_s,
        softirq_by_core=_softirq_by_core(before.machine, after.machine, wall_s),
        ksoftirqd_cores_used=_ksoftirqd_cores(before, after, wall_s),
        run_delay_share=min(1.0, run_delay),  # of several threads that wait at once, too
        total_cores_used=total_s / wall_s,
        others_cores_used=max(0.0, busy_s - trial_s - bench_s) / wall_s,
        stolen_cores=(after.machine.stolen_s - before.machine.stolen_s) / wall_s,
        **_per_frame(frames, total_s, switch_s, wire_ns_per_frame),
        **_useful(frames, switch_s, work),
    )


def _ksoftirqd_cores(before: CpuReading, after: CpuReading, wall_s: float) -> float | None:
    if before.ksoftirqd_s is None or after.ksoftirqd_s is None:
        return None
    return max(0.0, after.ksoftirqd_s - before.ksoftirqd_s) / wall_s


def _switch_s(before: CpuReading, after: CpuReading) -> float | None:
    """The CPU time of the switch's processes in seconds; a process that has died counts as 0."""
    if before.switch_s is None or after.switch_s is None:
        return None
    begun = before.switch_s
    return sum(max(0.0, now - begun.get(pid, 0.0)) for pid, now in after.switch_s.items())


def _softirq_by_core(before: MachineTime, after: MachineTime, wall_s: float) -> dict[str, float]:
    return {
        str(core): max(0.0, now - before.softirq_by_core_s.get(core, now)) / wall_s
        for core, now in after.softirq_by_core_s.items()
    }


def _per_frame(
    frames: int, total_s: float, switch_s: float | None, wire_ns: float | None
) -> dict[str, Any]:
    """CPU time for each frame that passed, and its inverse."""
    if frames <= 0 or total_s <= 0:
        return {}
    each_ns = total_s * 1e9 / frames
    figures: dict[str, Any] = {
        "frames": frames,
        "ns_per_frame": each_ns,
        "mpps_per_core": frames / total_s / 1e6,
    }
    if wire_ns is not None:
        figures["beyond_wire_ns_per_frame"] = each_ns - wire_ns
    if switch_s:
        figures["switch_ns_per_frame"] = switch_s * 1e9 / frames
    return figures


def _useful(frames: int, switch_s: float | None, work: SwitchWork | None) -> dict[str, Any]:
    """The share of its cycles that the switch itself reports as useful."""
    if work is None or not work.busy_cycles + work.idle_cycles:
        return {}
    share = work.busy_cycles / (work.busy_cycles + work.idle_cycles)
    figures: dict[str, Any] = {
        "switch_busy_cycles": work.busy_cycles,
        "switch_idle_cycles": work.idle_cycles,
        "switch_busy_share": share,
        "switch_work_source": work.source,
    }
    if frames > 0:
        figures["switch_busy_cycles_per_frame"] = work.busy_cycles / frames
        if switch_s:
            figures["switch_useful_ns_per_frame"] = share * switch_s * 1e9 / frames
    return figures
