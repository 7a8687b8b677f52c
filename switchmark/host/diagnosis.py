"""Findings about a machine: the meaning of its facts for results, as a pure function."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from switchmark.host.facts import Facts
from switchmark.host.hugepages import DEFAULT_SIZE_KB, NR_HUGEPAGES, free_mb

# OVS-DPDK with its own memory, and an engine at each of two ports.
COMFORTABLE_HUGEPAGES_MB = 1024
BUSY_SHARE = 0.5  # load divided by cores; above it other programs disturb
COMFORTABLE_MEMORY_MB = 2048


class Level(StrEnum):
    """The effect of a finding on results."""

    GOOD = "good"
    NOTE = "note"  # results hold, with this to know
    POOR = "poor"  # results are marked, or something cannot run


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact about the machine, and a sentence with its meaning for results."""

    topic: str
    value: str
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
    nodes = f"{len(facts.nodes)} NUMA {'node' if len(facts.nodes) == 1 else 'nodes'}"
    value = f"{facts.physical_cores} cores, {total} CPUs, {nodes}"
    if count < total:
        value += f"; this process may use {count}"
    needs = "a polling switch, a sender and a receiver need three"
    if count == 1:
        return Finding(
            "cores",
            value,
            Level.POOR,
            f"{needs}; all programs share one core, so rates depend on the scheduler as much as on"
            " the switch, and every result is marked oversubscribed",
            "use a machine with three cores or more",
        )
    if count == 2:
        return Finding(
            "cores",
            value,
            Level.NOTE,
            f"{needs}; here a polling switch has one core, the applications take turns on the other"
            " one, and such results are marked oversubscribed; with a switch in the kernel, sender"
            " and receiver each have a core",
        )
    pairs = (count - 1) // 2
    return Finding(
        "cores",
        value,
        Level.GOOD,
        f"room for a polling switch and {pairs} {'pair' if pairs == 1 else 'pairs'} with a core"
        " for each application;"
        " more pairs share cores and are marked oversubscribed",
    )


def _smt(facts: Facts) -> Finding:
    if facts.physical_cores == len(facts.cpus):
        return Finding("SMT", "off", Level.GOOD, "no CPU shares its execution units with another")
    return Finding(
        "SMT",
        "on",
        Level.NOTE,
        "siblings share the units of one core; the switch's sibling is left idle, and a record"
        " states it if a trial must use siblings",
        "echo off > /sys/devices/system/cpu/smt/control",
    )


def _isolation(facts: Facts) -> Finding:
    if facts.isolated_cpus:
        ticks = f", tickless {facts.nohz_full}" if facts.nohz_full else ""
        return Finding(
            "isolation",
            facts.isolated_cpus + ticks,
            Level.GOOD,
            "the switch and applications go to the isolated CPUs, which run nothing else",
        )
    return Finding(
        "isolation",
        "none",
        Level.NOTE,
        "other programs and the kernel may run on the measured cores for moments, which raises high"
        " percentiles of latency and hardly changes mean throughput",
        "boot with isolcpus=... nohz_full=... to keep some cores free",
    )


def _governor(facts: Facts) -> Finding:
    if facts.governor is None:
        return Finding(
            "governor",
            "none",
            Level.NOTE,
            "the kernel does not control the clock speed here, as in most virtual machines; the"
            " host may change it between trials, which widens the spread of repetitions",
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
        return Finding("turbo", "unknown", Level.NOTE, "it is not visible in this virtual machine")
    if not facts.turbo:
        return Finding("turbo", "off", Level.GOOD, "the clock has one speed")
    return Finding(
        "turbo",
        "on",
        Level.NOTE,
        "the clock speed depends on temperature and on the number of busy cores: compare switches"
        " by repetitions, and do not compare with other machines",
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
    value = f"{', '.join(facts.tsc_flags) or 'none'}; clock source {facts.clock_source}"
    if {"constant_tsc", "nonstop_tsc"} <= set(facts.tsc_flags):
        return Finding(
            "TSC",
            value,
            Level.GOOD,
            "time stamps and pacing cost some nanoseconds and agree on all cores",
        )
    return Finding(
        "TSC",
        value,
        Level.NOTE,
        "the cycle counter may stop or change its speed; the engine takes the kernel's monotonic"
        " clock, which costs more a time stamp",
    )


def _virtualised(facts: Facts) -> Finding:
    if facts.virtualised is None:
        return Finding("virtualised", "no", Level.GOOD, "no other guest shares the cores")
    return Finding(
        "virtualised",
        facts.virtualised,
        Level.NOTE,
        "other guests may use the cores for moments that the bench cannot see: use the confidence"
        " intervals of repetitions, not single trials",
    )


def _mitigations(facts: Facts) -> Finding:
    active = [name for name, text in facts.mitigations.items() if "Mitigation" in text]
    return Finding(
        "mitigations",
        f"{len(active)} active" if active else "none active",
        Level.GOOD if not active else Level.NOTE,
        "each system call takes longer because of them, which slows switches in the kernel and"
        " socket I/O, and hardly polling switches; each record lists them"
        if active
        else "system calls cost what the CPU takes",
    )


def _memory(facts: Facts) -> Finding:
    if facts.memory_free_mb is None:
        return Finding("memory", "unknown", Level.NOTE, "it cannot be checked")
    value = f"{facts.memory_free_mb} of {facts.memory_total_mb} MiB available"
    if facts.memory_free_mb < COMFORTABLE_MEMORY_MB:
        return Finding(
            "memory",
            value,
            Level.POOR,
            "scarce: trials of many pairs may fail",
            "free some memory",
        )
    return Finding("memory", value, Level.GOOD, "enough")


def _hugepages(facts: Facts) -> Finding:
    pools = [pool for pool in facts.hugepages if pool.total]
    value = ", ".join(f"{p.free} of {p.total} free of {p.size_kb} kB" for p in pools) or "none"
    if free_mb(pools) >= COMFORTABLE_HUGEPAGES_MB:
        return Finding("hugepages", value, Level.GOOD, "DPDK switches and applications can run")
    needed_pages = COMFORTABLE_HUGEPAGES_MB * 1024 // DEFAULT_SIZE_KB
    used = sum(pool.total - pool.free for pool in pools if pool.size_kb == DEFAULT_SIZE_KB)
    return Finding(
        "hugepages",
        value,
        Level.POOR,
        f"less than {COMFORTABLE_HUGEPAGES_MB} MiB is free: runs that need more place the memory "
        "of DPDK on pages of 4 KiB",
        f"echo {used + needed_pages} > {NR_HUGEPAGES}",
    )


def _load(facts: Facts) -> Finding:
    load = facts.load_average[0]
    value = f"{load:.2f} over the last minute"
    if load > BUSY_SHARE * len(facts.cpus):
        return Finding(
            "load",
            value,
            Level.POOR,
            "busy programs will disturb trials",
            "stop them first",
        )
    return Finding("load", value, Level.GOOD, "the machine is quiet")
