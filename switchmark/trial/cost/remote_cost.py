"""The cost of a trial between hosts on the other host, which the agent there measures."""

from __future__ import annotations

from switchmark.host.cores.cpu_time import CpuReading
from switchmark.record.cost import CpuCost
from switchmark.record.runs import FarHost
from switchmark.remote.site import FarSide
from switchmark.trial.cost.cpu import ApplicationCpu, cost
from switchmark.trial.cost.hardware import with_hardware
from switchmark.trial.deployment import Deployment
from switchmark.trial.measurement import Measurement


def begin_remote_cost(far: FarSide) -> CpuReading:
    """Read the other host's CPU time before the traffic, and start its hardware counters."""
    cores = far.placement.application_cores.values() if far.placement else ()
    return far.site.begin_meter([core for own in cores for core in own])


def remote_cost(
    deployment: Deployment, far: FarSide, before: CpuReading, seen: Measurement
) -> CpuCost:
    """The cost on the other host since that reading. Every frame that passed went through it,
    too."""
    read = far.site.end_meter()
    there = [ApplicationCpu.of(one) for one in deployment.engines if one.has_result and one.far]
    work = deployment.vnf_work(far=True)
    used, frames = [*(seen.far_cpu or there), *work], seen.passed_frames
    return with_hardware(cost(before, read.clocks, used, frames=frames), read, frames)


def hosts_used(far: FarHost | None, used: CpuCost) -> list[CpuCost]:
    """The cost on each host, and what other programs used there. Two hosts that are one machine
    take each other's programs for strangers; those are left out."""
    if far is None or far.cpu is None:
        return [used]
    if not far.same_machine:
        return [used, far.cpu]
    theirs = far.cpu.applications_cores_used + (far.cpu.switch_cores_used or 0.0)
    strangers = max(0.0, (used.others_cores_used or 0.0) - theirs)
    return [
        used.model_copy(update={"others_cores_used": strangers}),
        far.cpu.model_copy(update={"others_cores_used": None}),  # counted once
    ]
