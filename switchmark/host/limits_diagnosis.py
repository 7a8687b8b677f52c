"""Findings about the limits of the place: their meaning for results, as a pure function."""

from __future__ import annotations

import math

from switchmark.host.diagnosis import Finding, Level
from switchmark.host.place import Kind, PlaceLimits
from switchmark.host.place.remedies import limit_remedy

MIB = 1 << 20
# The smallest place that is supported.
LEAST_CPUS, LEAST_MEMORY_MB, LEAST_LEFT_MB = 2, 2048, 1024
LEAST_TASKS, LEAST_FILES = 200, 256  # more than the bench and its programs use


def diagnose_limits(limits: PlaceLimits, kind: Kind) -> list[Finding]:
    """Findings on the CPU quota, the memory, and the rest, with remedies for this kind of place."""
    return [_quota(limits, kind), _memory(limits, kind), _others(limits, kind)]


def _quota(limits: PlaceLimits, kind: Kind) -> Finding:
    quota = limits.cpu_quota
    if quota is None:
        return Finding("CPU quota", "none", Level.GOOD, "no visible control group limits CPU time")
    value_text = f"{quota:g} CPUs, of {len(limits.allowed_cpus)} that may be used"
    remedy = f"raise it: {limit_remedy('cpu', kind)}"
    whole = min(math.floor(quota), len(limits.allowed_cpus))
    if whole < 1:
        meaning = "nothing can be measured: every program would be stopped in each period"
        return Finding("CPU quota", value_text, Level.POOR, meaning, remedy)
    if whole < LEAST_CPUS:
        meaning = "everything shares one CPU; switches that poll are refused"
        return Finding("CPU quota", value_text, Level.POOR, meaning, remedy)
    if whole < len(limits.allowed_cpus):
        meaning = (
            f"a trial that would need more is kept to {whole} CPUs, so that the quota is not used "
            "up; a trial that was stopped all the same is marked throttled"
        )
        return Finding("CPU quota", value_text, Level.NOTE, meaning, remedy)
    return Finding("CPU quota", value_text, Level.GOOD, "enough for all CPUs that may be used")


def _memory(limits: PlaceLimits, kind: Kind) -> Finding:
    whole, left = limits.memory_bytes, limits.memory_left_bytes
    if whole is None or left is None:
        return Finding("memory limit", "none", Level.GOOD, "no visible control group limits memory")
    value_text = f"{whole // MIB} MiB, of which {left // MIB} MiB are left"
    if whole < LEAST_MEMORY_MB * MIB or left < LEAST_LEFT_MB * MIB:
        return Finding(
            "memory limit",
            value_text,
            Level.POOR,
            f"trials are promised to fit from {LEAST_MEMORY_MB} MiB on, of which {LEAST_LEFT_MB} "
            "MiB are left: programs may be killed, and trials that cannot fit are refused",
            f"raise it: {limit_remedy('memory', kind)}",
        )
    return Finding("memory limit", value_text, Level.GOOD, "enough")


def _others(limits: PlaceLimits, kind: Kind) -> Finding:
    shared = limits.shared_memory_bytes
    rows = (
        ("more processes and threads", limits.tasks_left),
        ("open files", limits.open_files),
        ("processes of this user", limits.processes),
        ("KiB of locked memory", _over(limits.locked_memory_bytes, 1024)),
        ("MiB of /dev/shm", 0 if shared is None else shared // MIB),
    )
    value_text = ", ".join(
        f"{'no limit of' if value is None else value} {name}" for name, value in rows
    )
    few = [
        (what, limit_remedy(key, kind))
        for what, key, value, least in (
            ("processes and threads", "tasks", limits.tasks_left, LEAST_TASKS),
            ("open files", "files", limits.open_files, LEAST_FILES),
        )
        if value is not None and value < least
    ]
    if few:
        return Finding(
            "other limits",
            value_text,
            Level.POOR,
            f"few {' and '.join(what for what, _ in few)}: trials may fail to start",
            f"raise them: {'; '.join(remedy for _, remedy in few)}",
        )
    return Finding("other limits", value_text, Level.GOOD, "enough for trials of a few pairs")


def _over(value: int | None, by: int) -> int | None:
    return None if value is None else value // by
