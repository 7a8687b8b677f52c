"""The engine's use of its cores."""

from __future__ import annotations

from switchmark.engine.event_parts.part import Amount, Count, EventPart, Share


class Scheduling(EventPart):
    """The scheduling class of the process."""

    policy: str | None
    priority: Count
    nice: int


class CpuUse(EventPart):
    """CPU time of the process over the trial."""

    wall_ns: Count
    cpu_ns: Count
    user_ns: Count
    system_ns: Count
    voluntary_switches: Count
    involuntary_switches: Count
    run_delay_ns: Count
    stolen_ns: Count
    stolen_own_cores_ns: Count | None
    scheduling: Scheduling


class BatonUse(EventPart):
    """How workers that share a core handed it to each other."""

    passes: Count
    by_yield: Count
    waited_ns: Count
    longest_wait_ns: Count
    silent_holders: Count


class Cycles(EventPart):
    """The cycles that a frame cost the workers."""

    useful_ticks: Count
    idle_ticks: Count
    useful_share: Share
    frames: Count
    ticks_per_frame: Amount | None


class HardwareCounts(EventPart):
    """Hardware events of the workers' cores."""

    with_kernel: bool
    counted_share: Amount
    reason: str | None
    cycles: Count | None
    instructions: Count | None
    branch_misses: Count | None
    cache_misses: Count | None
    dtlb_misses: Count | None
