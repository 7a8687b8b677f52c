"""Everything that is read just before the traffic and just after it, to say what a trial costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.host.cores.counters import (
    EnergyReading,
    HardwareCounters,
    MeterReading,
    energy_absent,
)
from switchmark.host.cores.cpu_time import CpuReading
from switchmark.host.cores.throttling import OwnThrottling
from switchmark.record import GroupQuota, Placement
from switchmark.record.cost import CpuCost
from switchmark.switch.support.base import Switch
from switchmark.switch.support.work import SwitchWork, TellsWork
from switchmark.trial.cost.cpu import ApplicationCpu, cost
from switchmark.trial.cost.hardware import with_hardware
from switchmark.trial.cost.quota import group_quota_since


@dataclass
class Meter:
    """Readings of everything that a trial uses; made before the traffic, `end` gives the cost."""

    switch: Switch
    clocks: CpuReading
    counters: HardwareCounters
    energy: EnergyReading
    work: SwitchWork | None
    throttling: OwnThrottling
    machines: Sequence[int] = ()

    @classmethod
    def begin(cls, switch: Switch, placement: Placement, machines: Sequence[int] = ()) -> Meter:
        """Read everything, and start the hardware counters. `machines` are the processes of virtual
        machines."""
        pids = switch.process_ids()
        cores = [core for own in placement.application_cores.values() for core in own]
        return cls(
            switch=switch,
            work=_work(switch),
            counters=HardwareCounters.open_for(pids, cores),
            energy=EnergyReading.take(),
            throttling=OwnThrottling.read(),
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
        """The cost since `begin`; `frames` passed the switch meanwhile."""
        read = MeterReading(
            CpuReading.take(self.switch.process_ids(), self.machines), self.counters.stop(),
            self.counters.absent, self.energy, EnergyReading.take(), energy_absent(),
        )  # fmt: skip
        now = _work(self.switch)
        found = cost(
            self.clocks,
            read.clocks,
            applications,
            frames=frames,
            wire_ns_per_frame=wire_ns_per_frame,
            work=now.since(self.work) if now and self.work else None,
        )
        return with_hardware(found, read, frames)


def _work(switch: Switch) -> SwitchWork | None:
    return switch.work() if isinstance(switch, TellsWork) else None
