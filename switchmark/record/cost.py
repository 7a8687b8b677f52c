"""The cost of a trial in its record: cores, time and cycles a frame, cache misses, energy."""

from __future__ import annotations

from pydantic import Field

from switchmark.model.value import Amount, Count, Ratio, Value


class HardwareUse(Value):
    """The hardware counters' counts over the trial, bench and pauses included."""

    scope: str  # the switch's threads, or all that ran on some cores
    events: dict[str, Count]
    counted_share: Ratio  # share of the time; below 1, events took turns and were scaled up
    instructions_per_cycle: Amount | None
    cache_miss_ratio: Amount | None  # misses over references, last level
    cycles_per_frame: Amount | None
    instructions_per_frame: Amount | None
    cache_misses_per_frame: Amount | None
    dtlb_misses_per_frame: Amount | None


class EnergyUse(Value):
    """RAPL's counts over the trial, for the whole machine."""

    joules: dict[str, Amount]  # by domain
    microjoules_per_frame: Amount | None  # energy of the packages


class CpuCost(Value):
    """CPU seconds per second by user over the trial, and CPU time for each frame."""

    switch_cores_used: Amount | None  # None: in-kernel, not separable from its callers
    applications_cores_used: Amount
    softirq_cores_used: Amount | None
    run_delay_share: Amount | None  # share of time applications were runnable but waited
    total_cores_used: Amount | None = None  # by the trial in all, nothing counted twice
    others_cores_used: Amount | None = None  # by programs that have nothing to do with the trial
    stolen_cores: Amount | None = None  # taken by the hypervisor
    # Of the applications' time, that inside the kernel: where an in-kernel switch works.
    applications_system_cores: Amount | None = None
    softirq_by_core: dict[str, Amount] = Field(default_factory=dict)
    ksoftirqd_cores_used: Amount | None = None  # part of the softirq time
    frames: Count | None = None  # frames that passed the switch; the divisor of the next fields
    ns_per_frame: Amount | None = None  # CPU time of the whole trial
    beyond_wire_ns_per_frame: float | None = None  # the same, minus the baseline
    switch_ns_per_frame: Amount | None = None  # CPU time of the switch's processes
    mpps_per_core: Amount | None = None
    switch_busy_cycles: Count | None = None  # from the switch's own counters
    switch_idle_cycles: Count | None = None
    switch_busy_share: Ratio | None = None
    switch_busy_cycles_per_frame: Amount | None = None
    switch_useful_ns_per_frame: Amount | None = None
    switch_work_source: str = ""
    hardware: HardwareUse | None = None
    hardware_absent: str = ""  # why there are no hardware counters
    energy: EnergyUse | None = None
    energy_absent: str = ""

    @property
    def taken_cores(self) -> float:
        """Cores that the trial could not have, because other programs or the hypervisor used
        them."""
        return (self.others_cores_used or 0.0) + (self.stolen_cores or 0.0)
