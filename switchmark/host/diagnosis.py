"""What the facts of a machine mean for results: a pure function from facts to findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from switchmark.host.facts import Facts
from switchmark.host.hugepages import DEFAULT_SIZE_KB, NR_HUGEPAGES, free_mb

# OVS-DPDK with its own memory, and an engine at each of two ports.
COMFORTABLE_HUGEPAGES_MB = 1024
BUSY_SHARE = 0.5  # of the cores, as load: other programs disturb
COMFORTABLE_MEMORY_MB = 2048


class Level(StrEnum):
    """How a finding bears on results."""

    GOOD = "good"
    NOTE = "note"  # results hold, with this to know
    POOR = "poor"  # results are marked, or something cannot run


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact about the machine, and in a sentence what it means for results."""

    topic: str
    seen: str
    level: Level
    meaning: str
    remedy: str | None = None


def diagnose(facts: Facts) -> list[Finding]:
    """Findings in the order in which they matter."""
    return [
        _cores(facts),
        _smt(facts),
        _isolation(facts),
        _governor(facts),
        _turbo(facts),
        _clock(facts),
        _virtualised(facts),
        _mitigations(facts),
        _memory(facts),
        _hugepages(facts),
        _load(facts),
    ]


def _cores(facts: Facts) -> Finding:
    usable, total = len(facts.usable_cpus), len(facts.cpus)
    isolated = sum(cpu.isolated for cpu in facts.cpus)
    count = usable + (isolated if usable == total - isolated else 0)
    seen = f"{facts.physical_cores} cores, {total} CPUs, {len(facts.nodes)} NUMA node(s)"
    if count < total:
        seen += f"; this process may use {count}"
    needs = "a polling switch, a sender and a receiver need three"
    if count == 1:
        return Finding(
            "cores",
            seen,
            Level.POOR,
            f"one core: {needs}; everything shares one, rates are those of the scheduler as much"
            " as of the switch, and every result is marked oversubscribed",
            "use a machine with three cores or more",
        )
    if count == 2:
        return Finding(
            "cores",
            seen,
            Level.NOTE,
            f"two cores: {needs}; a polling switch has one for itself, the applications take"
            " turns on the other, and such results are marked oversubscribed; with an"
            " in-kernel switch sender and receiver have a core each",
        )
    pairs = (count - 1) // 2
    return Finding(
        "cores",
        seen,
        Level.GOOD,
        f"room for a polling switch and {pairs} pair(s) with a core for each application;"
        " more pairs share cores and are marked oversubscribed",
    )


def _smt(facts: Facts) -> Finding:
    if facts.physical_cores == len(facts.cpus):
        return Finding("SMT", "off", Level.GOOD, "no CPU shares its execution units with another")
    return Finding(
        "SMT",
        "on",
        Level.NOTE,
        "siblings share the units of one core; the switch's sibling is left idle, and a placement"
        " that must use others says so",
        "echo off > /sys/devices/system/cpu/smt/control",
    )


def _isolation(facts: Facts) -> Finding:
    if facts.isolated_cpus:
        ticks = f", tickless {facts.nohz_full}" if facts.nohz_full else ""
        return Finding(
            "isolation",
            facts.isolated_cpus + ticks,
            Level.GOOD,
            "the switch and applications go to the isolated CPUs, where nothing else runs",
        )
    return Finding(
        "isolation",
        "none",
        Level.NOTE,
        "other programs and the kernel may run on the measured cores for moments: the far"
        " percentiles of latency show it, mean throughput hardly does",
        "boot with isolcpus=... nohz_full=... to keep some cores free",
    )


def _governor(facts: Facts) -> Finding:
    if facts.governor is None:
        return Finding(
            "governor",
            "none",
            Level.NOTE,
            "the kernel does not steer the clock here (as in most virtual machines); whoever"
            " does may change it between trials: repetitions show it",
        )
    if facts.governor == "performance":
        return Finding("governor", facts.governor, Level.GOOD, "the clock does not follow the load")
    return Finding(
        "governor",
        facts.governor,
        Level.POOR,
        "the clock follows the load: the first seconds are slower, light loads look slow",
        "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )


def _turbo(facts: Facts) -> Finding:
    if facts.turbo is None:
        return Finding("turbo", "not told", Level.NOTE, "cannot be seen from here, nor set")
    if not facts.turbo:
        return Finding("turbo", "off", Level.GOOD, "the clock has one speed")
    return Finding(
        "turbo",
        "on",
        Level.NOTE,
        "the clock depends on temperature and on how many cores are busy: compare switches by"
        " repetitions, and do not compare with other machines",
        "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
        " (or echo 0 > /sys/devices/system/cpu/cpufreq/boost)",
    )


def _clock(facts: Facts) -> Finding:
    if facts.architecture != "aarch64":
        return _tsc(facts)
    if facts.clock_source == "arch_sys_counter":
        return Finding(
            "clock counter",
            facts.clock_source,
            Level.GOOD,
            "time stamps and pacing cost some nanoseconds and agree on all cores; the counter often"
            " steps by 40 ns, which each record states",
        )
    return Finding(
        "clock counter",
        f"clock source {facts.clock_source}",
        Level.NOTE,
        "the kernel does not keep its time by the CPU's counter; the engine takes the kernel's"
        " monotonic clock, which costs more a time stamp",
    )


def _tsc(facts: Facts) -> Finding:
    seen = f"{', '.join(facts.tsc_flags) or 'none'}; clock source {facts.clock_source}"
    if {"constant_tsc", "nonstop_tsc"} <= set(facts.tsc_flags):
        return Finding(
            "TSC",
            seen,
            Level.GOOD,
            "time stamps and pacing cost some nanoseconds and agree on all cores",
        )
    return Finding(
        "TSC",
        seen,
        Level.NOTE,
        "the cycle counter may stop or change its speed; the engine takes the kernel's monotonic"
        " clock, which costs more a time stamp",
    )


def _virtualised(facts: Facts) -> Finding:
    if facts.virtualised is None:
        return Finding("virtualised", "no", Level.GOOD, "nobody else takes the cores away")
    return Finding(
        "virtualised",
        facts.virtualised,
        Level.NOTE,
        "other guests may take the cores for moments that the bench cannot see: trust the"
        " confidence intervals of repetitions, not single trials",
    )


def _mitigations(facts: Facts) -> Finding:
    active = [name for name, text in facts.mitigations.items() if "Mitigation" in text]
    return Finding(
        "mitigations",
        f"{len(active)} active" if active else "none active",
        Level.GOOD if not active else Level.NOTE,
        "each system call is dearer by them: kernel switches and socket I/O pay, polling ones"
        " hardly; they are in every record"
        if active
        else "system calls cost what the CPU takes",
    )


def _memory(facts: Facts) -> Finding:
    if facts.memory_free_mb is None:
        return Finding("memory", "not told", Level.NOTE, "cannot be checked")
    seen = f"{facts.memory_free_mb} of {facts.memory_total_mb} MiB available"
    if facts.memory_free_mb < COMFORTABLE_MEMORY_MB:
        return Finding(
            "memory", seen, Level.POOR, "scarce: many pairs may fail to start", "free some memory"
        )
    return Finding("memory", seen, Level.GOOD, "enough")


def _hugepages(facts: Facts) -> Finding:
    pools = [pool for pool in facts.hugepages if pool.total]
    seen = ", ".join(f"{p.free} of {p.total} free of {p.size_kb} kB" for p in pools) or "none"
    if free_mb(pools) >= COMFORTABLE_HUGEPAGES_MB:
        return Finding("hugepages", seen, Level.GOOD, "DPDK switches and applications can run")
    wanted = COMFORTABLE_HUGEPAGES_MB * 1024 // DEFAULT_SIZE_KB
    used = sum(pool.total - pool.free for pool in pools if pool.size_kb == DEFAULT_SIZE_KB)
    return Finding(
        "hugepages",
        seen,
        Level.POOR,
        f"less than {COMFORTABLE_HUGEPAGES_MB} MiB free: runs that need more have the memory of "
        "DPDK on pages of 4 KiB",
        f"echo {used + wanted} > {NR_HUGEPAGES}",
    )


def _load(facts: Facts) -> Finding:
    load = facts.load_average[0]
    seen = f"{load:.2f} over the last minute"
    if load > BUSY_SHARE * len(facts.cpus):
        return Finding(
            "load", seen, Level.POOR, "other programs are busy and will disturb", "stop them first"
        )
    return Finding("load", seen, Level.GOOD, "the machine is quiet")
