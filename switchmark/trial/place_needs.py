"""Checks before a trial that its programs fit into the limits of this place.

The kernel stops a program beyond a CPU quota for a part of each period, and kills a program beyond
a memory limit. The needs are lower bounds for each program. A refused trial therefore cannot run,
but an accepted trial may still exceed a limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from switchmark.environment.registry import traits_of
from switchmark.errors import Refusal
from switchmark.host import place
from switchmark.host.cores.placement import needed_cpus
from switchmark.host.kernel.capabilities import has_capability
from switchmark.host.place import PlaceLimits
from switchmark.host.place.remedies import limit_remedy
from switchmark.model.capabilities import Availability, Capabilities, unavailable
from switchmark.model.io import Io
from switchmark.trial.memory_needs import applications_mb as applications_of
from switchmark.trial.memory_needs import memory_needs_mb
from switchmark.trial.plan import TrialPlan

MIB = 1 << 20
CAP_IPC_LOCK = 14
# Needs of one engine: memory besides the buffers of DPDK, and threads (DPDK adds two).
ENGINE_MB, ENGINE_TASKS, DPDK_TASKS = 8, 2, 4
SWITCH_TASKS = 1  # tasks of a switch that is a program
BENCH_MB = 32  # includes the summary after the last trial
GUEST_MB = 128  # memory that a virtual machine has used when its engine runs
XDP_LOCKED_MB = 16  # memory of the frames of one queue (XDP_RX_FRAMES in engine/io/af_xdp.h)
DPDK_FILES = 64  # open files (FILES_MIN in engine/io/dpdk_eal.c)
PIPES = 3  # pipes between the bench and each program


@dataclass(frozen=True, slots=True)
class PlaceNeeds:
    """The least that a trial needs on this host."""

    cpus: float
    memory_mb: int
    tasks: int
    open_files: int  # the larger number of the bench and of one program
    locked_mb: int  # for one program

    @classmethod
    def of(cls, plan: TrialPlan, *, small_pages: bool) -> PlaceNeeds:
        """Return the needs of a planned trial. `small_pages`: DPDK's buffers lie on pages of 4 KiB,
        which count as memory of the control group, unlike hugepages."""
        here = sum(not node.far for node in plan.topology.nodes)
        in_guests = traits_of(plan.trial.environment).guests
        guests, engines = (here, 0) if in_guests else (0, here)
        io = None if in_guests else plan.io
        dpdk = io is Io.DPDK
        programs = int(not plan.switch.capabilities.in_kernel and not plan.topology.direct)
        buffers_mb = _touched_mb(plan) if small_pages else 0
        own_mb = programs * plan.switch.capabilities.written_memory.own_mb
        others_mb = engines * ENGINE_MB + guests * GUEST_MB + own_mb
        return cls(
            cpus=needed_cpus(plan.placement),
            memory_mb=max(BENCH_MB, buffers_mb + others_mb),
            tasks=engines * (DPDK_TASKS if dpdk else ENGINE_TASKS) + programs * SWITCH_TASKS,
            open_files=max(DPDK_FILES * dpdk, PIPES * (engines + programs)),
            locked_mb=XDP_LOCKED_MB * (io is Io.AF_XDP),
        )


def misfits(plan: TrialPlan, limits: PlaceLimits, *, small_pages: bool) -> list[Refusal]:
    """Return a refusal for each need of a trial that is above a limit of this place."""
    needs = PlaceNeeds.of(plan, small_pages=small_pages)
    return [*_cpu_misfits(plan, needs, limits), *_other_misfits(needs, limits)]


def _cpu_misfits(plan: TrialPlan, needs: PlaceNeeds, limits: PlaceLimits) -> Iterator[Refusal]:
    quota = limits.cpu_quota
    if quota is not None and quota < 1 and needs.cpus > quota:
        yield Refusal(
            f"needs at least 1 CPU, and the CPU quota is {quota:g}",
            f"raise the quota ({_remedy('cpu')})",
        )
    elif quota is not None and needs.cpus > quota:
        yield Refusal(
            f"needs {needs.cpus:g} CPUs at a time, and the CPU quota is {quota:g}",
            f"raise the quota ({_remedy('cpu')}), or ask for fewer switch_cores",
        )
    elif not plan.topology.direct and (
        (answer := no_room_to_poll(plan.switch.capabilities, limits)) and answer.refusal
    ):
        yield answer.refusal


def _touched_mb(plan: TrialPlan) -> int:
    """Return the memory of DPDK in MiB that is really written to. Only such pages of 4 KiB count
    for the control group."""
    applications_mb, whole_mb = sum(applications_of(plan)), sum(memory_needs_mb(plan))
    written = plan.switch.capabilities.written_memory
    switch_mb = (whole_mb - applications_mb) * written.switch_share
    return int(switch_mb + applications_mb * written.engine_share)


def no_room_to_poll(capabilities: Capabilities, limits: PlaceLimits) -> Availability | None:
    """Return the reason if the switch polls and has no separate CPU, since it would never leave the
    only CPU to the applications. None if there are enough CPUs."""
    if not capabilities.polling or math.floor(limits.cpus) >= 2:
        return None
    has = "1 CPU" if limits.cpu_quota is None else f"a CPU quota of {limits.cpu_quota:g}"
    return unavailable(
        f"the switch polls and needs a CPU beside that of the applications, and this process has "
        f"{has}",
        remedy=f"allow 2 CPUs ({_remedy('cpu')}), or measure switches that do not poll",
    )


def _other_misfits(needs: PlaceNeeds, limits: PlaceLimits) -> Iterator[Refusal]:
    left, whole = limits.memory_left_bytes, limits.memory_bytes
    if left is not None and whole is not None and needs.memory_mb * MIB > left:
        yield Refusal(
            f"needs {needs.memory_mb} MiB of memory, and {left // MIB} MiB are left (the narrowest "
            f"limit is {whole // MIB} MiB)",
            f"raise the limit ({_remedy('memory')})",
        )
    available = limits.available_bytes
    if available is not None and needs.memory_mb * MIB > available:
        yield Refusal(
            f"needs {needs.memory_mb} MiB of memory, and {available // MIB} MiB are available on "
            "this machine",
            "end other programs, or use fewer pairs",
        )
    if limits.tasks_left is not None and needs.tasks > limits.tasks_left:
        yield Refusal(
            f"needs {needs.tasks} processes and threads, and {limits.tasks_left} of the limit of "
            f"{limits.tasks} are left",
            f"raise the limit ({_remedy('tasks')})",
        )
    if limits.open_files is not None and needs.open_files > limits.open_files:
        yield Refusal(
            f"needs {needs.open_files} open files in one program, and the limit is "
            f"{limits.open_files}",
            f"raise it ({_remedy('files')})",
        )
    locked = limits.locked_memory_bytes
    if locked is not None and needs.locked_mb * MIB > locked and not has_capability(CAP_IPC_LOCK):
        yield Refusal(
            f"needs {needs.locked_mb} MiB of locked memory in one program, and the limit is "
            f"{locked >> 10} KiB",
            f"raise it ({_remedy('locked')})",
        )


def _remedy(limit: str) -> str:
    return limit_remedy(limit, place.kind())
