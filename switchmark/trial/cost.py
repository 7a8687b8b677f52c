"""The cost of a trial in CPU time: read from the kernel before and after, never sampled meanwhile.

The unit is cores used: CPU seconds per second of wall time. The kernel's softirq time is that of
the whole machine, in ticks of 10 ms. On veth paths, a switch in the kernel works in softirqs.

A switch that polls uses its cores completely at any load; a switch in the kernel works in its
callers' system calls and in softirqs. Only the total can be compared between the two: the CPU time
of everything that the trial needs, for each frame that passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from switchmark.engine.process import EngineProcess
from switchmark.host import place
from switchmark.host.cores.counters import (
    Counted,
    EnergyReading,
    HardwareCounters,
    MeterReading,
    energy_absent,
)
from switchmark.host.cores.cpu_limit import PERIOD_US, CpuLimit
from switchmark.host.cores.cpu_time import CpuReading, MachineTime
from switchmark.host.cores.throttling import OwnThrottling, Throttling
from switchmark.model.trial import Trial
from switchmark.record import CpuQuota, GroupQuota, Neighbour, Placement
from switchmark.record.cost import CpuCost, EnergyUse, HardwareUse
from switchmark.record.lookups import LookupNote
from switchmark.record.runs import FarHost
from switchmark.remote.site import FarSide
from switchmark.switch.support.base import Switch
from switchmark.switch.support.lookups import LookupCounts
from switchmark.switch.support.work import ReportsWork, SwitchWork
from switchmark.trial.lookups import lookup_note, read_lookups

if TYPE_CHECKING:
    from switchmark.trial.deployment import Deployment
    from switchmark.trial.recording import Measurement


@dataclass(frozen=True, slots=True)
class ApplicationCpu:
    """CPU time that an application, or a VNF, used while the traffic ran."""

    wall_ns: int
    cpu_ns: int  # user and system
    system_ns: int = 0
    run_delay_ns: int = 0  # time in which it was runnable and waited for a core
    in_guest: bool = False

    @classmethod
    def of(cls, engine: EngineProcess) -> ApplicationCpu:
        """Return the CPU time of an engine over its last trial."""
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
    """Return the cores used between two readings; `frames` passed the switch meanwhile.

    CPU time besides that of switch, applications and bench was used by other programs, and is a
    disturbance. Depending on its configuration, the kernel counts a softirq in the interrupted
    process or separately. Softirqs are left out of that sum, which can then only be too small."""
    wall_s = after.wall_s - before.wall_s
    applications_s = after.machines_s - before.machines_s
    system_s = run_delay = 0.0
    for cpu in applications:
        # The real cost of a guest's engine is the CPU time of the machine on the host.
        applications_s += 0.0 if cpu.in_guest else cpu.cpu_ns / 1e9
        system_s += cpu.system_ns / 1e9
        run_delay = max(run_delay, cpu.run_delay_ns / (cpu.wall_ns or 1))
    switch_s = _switch_s(before, after)
    busy_s = after.machine.busy_s - before.machine.busy_s
    softirq_s = after.machine.softirq_s - before.machine.softirq_s
    bench_s = after.bench_s - before.bench_s
    trial_s = applications_s + (switch_s or 0.0)
    # A process may also be charged with a softirq that interrupts it. The sum of the machine has
    # each softirq once.
    total_s = max(trial_s, min(trial_s + softirq_s, busy_s + softirq_s - bench_s))
    return CpuCost(
        switch_cores_used=None if switch_s is None else switch_s / wall_s,
        applications_cores_used=applications_s / wall_s,
        applications_system_cores=system_s / wall_s,
        softirq_cores_used=softirq_s / wall_s,
        softirq_by_core=_softirq_by_core(before.machine, after.machine, wall_s),
        ksoftirqd_cores_used=_ksoftirqd_cores(before, after, wall_s),
        run_delay_share=min(1.0, run_delay),  # several threads can wait at once
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
    """Return the CPU time of the switch's processes in seconds; a dead process counts as 0."""
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
    """Return the CPU time for each frame that passed, and its inverse."""
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
    """Return the share of its cycles that the switch itself reports as useful."""
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


def with_hardware(used: CpuCost, read: MeterReading, frames: int) -> CpuCost:
    """Return the cost with hardware counters and energy, or with the reason why they are absent;
    `frames` passed the switch."""
    hardware = hardware_use(read.counted, frames)
    energy = energy_between(read.energy_before, read.energy, frames)
    absent = read.counters_absent or "the counters never ran"
    return used.model_copy(
        update={
            "hardware": hardware,
            "hardware_absent": "" if hardware else absent,
            "energy": energy,
            "energy_absent": "" if energy else read.energy_absent,
        }
    )


def hardware_use(counted: Counted | None, frames: int) -> HardwareUse | None:
    """Return the counters' figures; `frames` passed the switch. None if nothing was counted."""
    if counted is None:
        return None
    values = dict(counted.values)

    def ratio(part: str, whole: str) -> float | None:
        return values[part] / values[whole] if part in values and values.get(whole) else None

    def each(name: str) -> float | None:
        return values[name] / frames if name in values and frames else None

    return HardwareUse(
        scope=counted.scope,
        events=values,
        counted_share=min(1.0, counted.share),
        instructions_per_cycle=ratio("instructions", "cycles"),
        cache_miss_ratio=ratio("cache_misses", "cache_references"),
        cycles_per_frame=each("cycles"),
        instructions_per_frame=each("instructions"),
        cache_misses_per_frame=each("cache_misses"),
        dtlb_misses_per_frame=each("dtlb_misses"),
    )


def energy_between(before: EnergyReading, after: EnergyReading, frames: int) -> EnergyUse | None:
    """Return the energy used between two readings; None without RAPL."""
    used = {}
    for name, start in before.joules.items():
        if name in after.joules:
            spent = after.joules[name] - start
            used[name] = spent if spent >= 0 else spent + before.wraps_at[name]
    packages = [joules for name, joules in used.items() if name.startswith("package")]
    if not used:
        return None
    each = sum(packages) / frames * 1e6 if packages and frames else None
    return EnergyUse(joules=used, microjoules_per_frame=each)


@dataclass
class Meter:
    """Readings of everything that a trial uses: `begin` before the traffic, `end` after it."""

    switch: Switch
    clocks: CpuReading
    counters: HardwareCounters
    energy: EnergyReading
    work: SwitchWork | None
    throttling: OwnThrottling
    lookups_before: LookupCounts | None
    machines: Sequence[int] = ()
    lookups: LookupNote | None = None  # between `begin` and `end`

    @classmethod
    def begin(cls, switch: Switch, placement: Placement, machines: Sequence[int] = ()) -> Meter:
        """Read everything, and start the hardware counters. `machines` are the processes of virtual
        machines."""
        pids = switch.process_ids()
        cores = [core for each in placement.application_cores.values() for core in each]
        return cls(
            switch=switch,
            work=_work(switch),
            counters=HardwareCounters.open_for(pids, cores),
            energy=EnergyReading.take(),
            throttling=OwnThrottling.read(),
            lookups_before=read_lookups(switch),
            clocks=CpuReading.take(pids, machines),
            machines=machines,
        )

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self.counters.close()

    def quota(self) -> GroupQuota:
        """The CPU quota of everything, and the throttling since `begin`."""
        return group_quota_since(self.throttling)

    def end(
        self, applications: Sequence[ApplicationCpu], frames: int, wire_ns_per_frame: float | None
    ) -> CpuCost:
        """Return the cost since `begin`; `frames` passed the switch meanwhile."""
        read = MeterReading(
            CpuReading.take(self.switch.process_ids(), self.machines), self.counters.stop(),
            self.counters.absent, self.energy, EnergyReading.take(), energy_absent(),
        )  # fmt: skip
        self.lookups = lookup_note(self.switch, self.lookups_before)
        now = _work(self.switch)
        used = cost(
            self.clocks,
            read.clocks,
            applications,
            frames=frames,
            wire_ns_per_frame=wire_ns_per_frame,
            work=now.since(self.work) if now and self.work else None,
        )
        return with_hardware(used, read, frames)


def _work(switch: Switch) -> SwitchWork | None:
    return switch.work() if isinstance(switch, ReportsWork) else None


# The use may be above the quota: a period that began before the clocks were read may end after it,
# and the kernel hands out CPU time in slices of 5 ms for each core.
TOLERANCE_SHARE, TOLERANCE_CORES = 0.1, 0.05


def quota_since(
    before: Throttling | None, trial: Trial, limit: CpuLimit | None, used_cores: float | None
) -> CpuQuota | None:
    """Return the use of the limit since the counts were read; None without a limit."""
    if limit is None or before is None or trial.cpu_limit is None:
        return None
    after, cores = limit.read(), limit.quota_us / PERIOD_US
    most_cores = cores * (1 + TOLERANCE_SHARE) + TOLERANCE_CORES
    return CpuQuota(
        share=trial.cpu_limit,
        cores=cores,
        used_cores=used_cores,
        quota_us=limit.quota_us,
        period_us=PERIOD_US,
        cgroup_version=1 if limit.hierarchy.version == 1 else 2,
        periods=after.periods - before.periods,
        throttled_periods=after.throttled_periods - before.throttled_periods,
        throttled_s=after.throttled_s - before.throttled_s,
        in_force=used_cores is not None and used_cores <= most_cores and limit.in_force(),
        group=limit.group,
    )


def group_quota_since(before: OwnThrottling) -> GroupQuota:
    """Return the quota of the control groups of all programs, and the throttling since `before`."""
    throttling = OwnThrottling.read().since(before)
    return GroupQuota(
        cpus=place.limits().cpu_quota,
        throttled_periods=throttling.throttled_periods,
        throttled_s=throttling.seconds,
    )


def without_neighbour(used: CpuCost, noise: Neighbour | None) -> CpuCost:
    """Return the cost without the neighbour, which runs on purpose and is not a disturbance."""
    if noise is None or used.others_cores_used is None or noise.wall_s <= 0:
        return used
    others = max(0.0, used.others_cores_used - noise.cpu_s / noise.wall_s)
    return used.model_copy(update={"others_cores_used": others})


def begin_remote_cost(far: FarSide) -> CpuReading:
    """Read the remote host's CPU time before the traffic, and start its hardware counters."""
    cores = far.placement.application_cores.values() if far.placement else ()
    return far.site.begin_meter([core for each in cores for core in each])


def remote_cost(
    deployment: Deployment, far: FarSide, before: CpuReading, measurement: Measurement
) -> CpuCost:
    """Return the cost on the remote host since that reading. Every frame also passed that host."""
    read = far.site.end_meter()
    engines = [ApplicationCpu.of(one) for one in deployment.engines if one.has_result and one.far]
    work = deployment.vnf_work(far=True)
    used, frames = [*(measurement.far_cpu or engines), *work], measurement.passed_frames
    return with_hardware(cost(before, read.clocks, used, frames=frames), read, frames)


def hosts_used(far: FarHost | None, used: CpuCost) -> list[CpuCost]:
    """Return the cost on each host, and the use by other programs. If both hosts are one machine,
    each counts the programs of the other as others; these are left out."""
    if far is None or far.cpu is None:
        return [used]
    if not far.same_machine:
        return [used, far.cpu]
    remote_cores = far.cpu.applications_cores_used + (far.cpu.switch_cores_used or 0.0)
    strangers = max(0.0, (used.others_cores_used or 0.0) - remote_cores)
    return [
        used.model_copy(update={"others_cores_used": strangers}),
        far.cpu.model_copy(update={"others_cores_used": None}),  # counted once
    ]
