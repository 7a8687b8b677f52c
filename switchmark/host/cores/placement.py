"""Which core does what: a pure function from a machine and a trial to a placement.

The rules, in the order in which they are applied:

1. Cores are taken from one NUMA node, the one with most cores (isolated ones count first);
   first one CPU of each physical core, then the other nodes' cores, then SMT siblings.
2. With cores to spare, the lowest core stays free for the bench and the kernel's own work
   (interrupts, timers and kernel threads gather there by default); with too few it is shared
   by the bench, which sleeps most of the time, and applications, and never by the switch.
3. A switch that runs as a process gets its own cores. Nothing else goes on their SMT siblings
   while there is another CPU.
4. An in-kernel switch has no core: its work is done by the sender's core, in its softirq. A
   pair's ends lie on different cores, then, so that the receiver takes nothing from it.
5. Applications get a core each if there are enough. Otherwise all share, alike for every
   pair: with a switch process, both ends of a pair on one core (they take turns on it); with an
   in-kernel switch, spread so that each core has as many senders as receivers.
6. An application that has a core to itself polls; those that share one take turns (`baton`). The
   kernel changes between two polling processes only at its tick, some 4 ms, and a yield is a
   wish: the receiver starves, and its loss looks like the switch's (docs/engine-io.md). One that
   shares its core with the switch alone yields.
7. A sender makes up for a pause of 1 ms; one that shares its core, for 9 ms: the kernel may give
   the core to other programs for up to two ticks. With less, the sender would give frames up at
   any rate, and a search would find the sender's pauses instead of the switch.
8. What the campaign says goes before all this: named cores, beside which the rest is chosen from
   the others; no SMT siblings at all, or the applications on those of the switch's cores; one NUMA
   node, or the applications on another, or the generator alone (generator_apart.py).
   What the machine does not have is refused, never silently left out.
9. A switch that is not pinned begins on the cores that it would get, and may then move over all.
   The rest is placed as for one that is, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from switchmark.errors import UnavailableError
from switchmark.host.cores.cpu_order import (
    candidates_of,
    free_cores,
    home_node,
    in_order,
    wanted_cpus,
)
from switchmark.host.cores.demand import Demand
from switchmark.host.cores.generator_apart import generator_apart
from switchmark.host.cores.placement_reason import (
    apart_reasons,
    application_reason,
    core_list,
    numa_reasons,
    smt_reasons,
    switch_reason,
)
from switchmark.host.facts import Cpu
from switchmark.model.choices import Idle
from switchmark.record import Placement

CATCH_UP_US = 1000
SHARED_CATCH_UP_US = 9000


@dataclass(frozen=True, slots=True)
class _Handed:
    """The CPUs handed out: to the switch, to applications, and kept for the bench."""

    switch: list[int]
    applications: list[int]  # at least one; each may take several applications
    housekeeping: int


def place(cpus: Sequence[Cpu], usable: Collection[int], demand: Demand) -> Placement:
    """Place a trial on a machine. `usable` is the affinity of this process.

    CPUs set apart with `isolcpus` are not in the affinity a process has by default, and are
    meant for just this: they are used, too, unless the affinity was narrowed further.
    Raises UnavailableError when the switch wants more cores than there are."""
    allowed = candidates_of(cpus, usable)
    _check_named(allowed, {"neighbour_cpus": demand.neighbour_cpus})
    candidates = wanted_cpus(allowed, demand.smt, demand.numa)
    ordered = in_order(candidates)
    wanted = 0 if demand.in_kernel_switch else demand.switch_cores
    if wanted > len(ordered):
        raise UnavailableError(
            f"switch_cores: {wanted} wanted, but this process may use {len(ordered)} CPUs;"
            " ask for fewer"
        )
    main_cpu = () if demand.main_cpu is None else (demand.main_cpu,)
    named = {"switch_cpus": demand.switch_cpus, "application_cpus": demand.application_cpus}
    _check_named(candidates, {**named, "main_cpu": main_cpu})
    cores = _hand_out(ordered, wanted, demand)
    if demand.numa == "generator-apart":
        applications = _with_generator_apart(cores, ordered, demand)
    else:
        applications = _assign(cores.applications, demand)
    unpinned = demand.unpinned_switch and not demand.in_kernel_switch
    return _describe(
        demand, cores, applications, ordered, free_cores(candidates) if unpinned else []
    )


def _with_generator_apart(
    cores: _Handed, ordered: Sequence[Cpu], demand: Demand
) -> dict[str, list[int]]:
    """Place the applications apart from the switch's cores or, where it has none, from the fullest
    node."""
    switch = [cpu for cpu in ordered if cpu.id in cores.switch]
    home = switch[0].node if switch else home_node(ordered)
    inside = [name for name in demand.nodes if name not in demand.outside]
    return generator_apart(ordered, switch, home, inside, demand.outside)


def _check_named(candidates: Sequence[Cpu], named: Mapping[str, Sequence[int]]) -> None:
    """Raise UnavailableError if the campaign names cores, by key, that may not be used."""
    here = {cpu.id for cpu in candidates}
    for what, asked in named.items():
        if missing := sorted(set(asked) - here):
            raise UnavailableError(
                f"{what}: this process may not use CPU {', '.join(map(str, missing))}",
                remedy=f"it may use {', '.join(map(str, sorted(here)))}",
            )


def _hand_out(ordered: Sequence[Cpu], switch_cores: int, demand: Demand) -> _Handed:
    """Give the cores that the campaign names to whom it names them for, and the best of the others
    to the rest. Raises UnavailableError where the machine has none that are as asked."""
    named = list(demand.application_cpus)
    switch = list(demand.switch_cpus) or _of_switch(ordered, switch_cores, named)
    if demand.smt == "siblings" or demand.numa == "other":
        applications = _apart(ordered, switch, demand)
    else:
        applications = _of_applications(ordered, switch, len(demand.nodes))
    return _Handed(switch, named or applications, ordered[0].id)


def _of_switch(ordered: Sequence[Cpu], count: int, named: Collection[int]) -> list[int]:
    """Choose the switch's cores: off the applications' named ones and off their siblings, then off
    the housekeeping core, as far as there are others."""
    housekeeping, *rest = ordered
    busy = {cpu.core for cpu in ordered if cpu.id in named}
    by_worth = sorted((*rest, housekeeping), key=lambda cpu: (cpu.id in named, cpu.core in busy))
    return [cpu.id for cpu in by_worth[:count]]


def _of_applications(ordered: Sequence[Cpu], switch: Collection[int], count: int) -> list[int]:
    """Choose at most `count` cores for the applications: off the switch's and off their siblings,
    the housekeeping core last. Where there are none it is one sibling or, where every CPU is the
    switch's, the housekeeping core."""
    housekeeping, *rest = ordered
    busy = {cpu.core for cpu in ordered if cpu.id in switch}
    free = [cpu for cpu in (*rest, housekeeping) if cpu.id not in switch]
    chosen = [cpu for cpu in free if cpu.core not in busy] or free[-1:] or [housekeeping]
    return [cpu.id for cpu in chosen[:count]]


def _apart(ordered: Sequence[Cpu], own: Collection[int], demand: Demand) -> list[int]:
    """Choose the applications' cores on siblings of the switch's `own`, or on another node, as is
    asked for.

    Raises UnavailableError on a machine without."""
    switch = [cpu for cpu in ordered if cpu.id in own]
    pool = [cpu for cpu in ordered if cpu.id not in own]
    if demand.smt == "siblings":
        pool = [cpu for cpu in pool if cpu.core in {one.core for one in switch}]
        if not pool:
            raise UnavailableError(
                "smt: siblings: the switch's cores have no SMT siblings that this process may use",
                remedy="use smt: auto, or a machine with SMT switched on",
            )
    if demand.numa == "other":
        pool = [cpu for cpu in pool if cpu.node not in {one.node for one in switch}]
        if not pool:
            nodes = len({cpu.node for cpu in ordered})
            raise UnavailableError(
                f"numa: other: this process may use CPUs of {nodes} NUMA node"
                f"{'' if nodes == 1 else 's'}, none of them apart from the switch's",
                remedy="use numa: auto",
            )
    return [cpu.id for cpu in pool][: len(demand.nodes)]


def core_map(placement: Placement) -> dict[int, list[str]]:
    """Who runs on each core: the switch (at first, if it is not pinned), the bench, the neighbour
    and the nodes."""
    found: dict[int, list[str]] = {}
    for what, cores in (
        ("unpinned-switch" if placement.switch_free_cores else "switch", placement.switch_cores),
        ("switch-main", [] if placement.switch_main_core is None else [placement.switch_main_core]),
        *placement.application_cores.items(),
        ("neighbour", placement.neighbour_cores),
        ("bench", placement.bench_cores),
    ):
        for core in cores:
            found.setdefault(core, []).append(what)
    return dict(sorted(found.items()))


def _assign(cores: Sequence[int], demand: Demand) -> dict[str, list[int]]:
    """Give the applications their cores, by rule 5."""
    names, count = demand.nodes, len(cores)
    if count >= len(names):
        # The housekeeping core is the last, and if it must be used, it goes to a receiver:
        # a sender that is interrupted misses its schedule, a receiver has a queue.
        return {name: [core] for name, core in zip(names, cores, strict=False)}
    placed: dict[str, list[int]] = {}
    for index, pair in enumerate(demand.pairs):
        for end, name in enumerate(pair):
            shift = end * max(1, count // 2) if demand.in_kernel_switch else 0
            placed[name] = [cores[(index + shift) % count]]
    return placed


def _describe(
    demand: Demand,
    cores: _Handed,
    applications: dict[str, list[int]],
    ordered: Sequence[Cpu],
    free: list[int],
) -> Placement:
    used = [core for own in applications.values() for core in own]
    crowded = {core for core in used if used.count(core) > 1}
    with_switch = sorted(set(used) & set(cores.switch))
    idle = demand.idle
    if idle is Idle.AUTO:
        alone = Idle.YIELD if with_switch else Idle.POLL
        idle = Idle.BATON if crowded else alone
    bench = _bench_cores(cores, used, ordered)
    shared = set(bench) & set(used)
    oversubscribed = bool(crowded or with_switch)
    reasons = [
        switch_reason(demand.polling_switch, demand.in_kernel_switch, cores.switch, free),
        application_reason(used, crowded, with_switch),
        *smt_reasons(cores.switch, used, ordered, as_asked=demand.smt == "siblings"),
        *numa_reasons(cores.switch, used, ordered, as_asked=demand.names_nodes),
        *apart_reasons([applications[name][0] for name in demand.outside], ordered),
        f"bench on {core_list(bench)}" + (", shared with applications" if shared else ""),
    ]
    return Placement(
        switch_cores=cores.switch,
        application_cores=applications,
        bench_cores=bench,
        oversubscribed=oversubscribed,
        reason="; ".join(reasons),
        idle=idle.value,
        catch_up_us=SHARED_CATCH_UP_US if oversubscribed else CATCH_UP_US,
        switch_free_cores=free,
        switch_main_core=demand.main_cpu,
    )


def _bench_cores(cores: _Handed, used: Sequence[int], ordered: Sequence[Cpu]) -> list[int]:
    """The cores of the bench: the housekeeping core or, when applications are on it, any on which
    nothing runs. Never one of the switch's: where the campaign gives the switch the housekeeping
    core, the bench shares an application's."""
    taken = {*used, *cores.switch}
    busy = {cpu.core for cpu in ordered if cpu.id in cores.switch}
    free = [
        cpu.id
        for cpu in ordered
        if cpu.id not in taken and cpu.core not in busy and not cpu.isolated
    ]
    if free or cores.housekeeping not in cores.switch:
        return free[:1] or [cores.housekeeping]
    apart = [core for core in used if core not in cores.switch]
    return apart[-1:] or [cores.housekeeping]
