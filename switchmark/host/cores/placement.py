"""Assigns cores to the programs of a trial: a pure function of a machine and a trial.

The rules, in the order in which they apply:

1. Cores come from one NUMA node: the node with most cores, where isolated cores count first. First
   one CPU of each physical core is used, then cores of the other nodes, then SMT siblings.
2. If there are cores to spare, the lowest core stays free for the bench and for the kernel, whose
   interrupts, timers and threads run there by default. Otherwise the bench, which sleeps most of
   the time, shares this core with applications, but never with the switch.
3. A switch that is a process has its own cores. Their SMT siblings stay free while another CPU is
   free.
4. A switch in the kernel has no core: its work is done on the sender's core, in a softirq. The two
   ends of a pair then run on different cores, so that the receiver does not slow the switch.
5. Each application has its own core if there are enough. Otherwise all pairs share cores in the
   same way. With a switch process, both ends of a pair take turns on one core. With a switch in the
   kernel, each core has as many senders as receivers.
6. An application that has its own core polls. Applications that share a core take turns (`baton`):
   the kernel switches between two polling processes only at its tick (about 4 ms), and a yield is
   only a hint, so the receiver would starve and its loss would look like loss of the switch
   (docs/engine-io.md). An application that shares its core with the switch alone yields.
7. A sender catches up after a pause of up to 1 ms, and of up to 9 ms if it shares its core, since
   the kernel may give the core to other programs for up to two ticks. A smaller limit would make
   the sender give up frames at any rate, and a search would find the pauses of the sender instead
   of the capacity of the switch.
8. The campaign has priority. Cores that it names are used, and the others are chosen from the rest.
   It can exclude SMT siblings, or put the applications on the siblings of the switch's cores; it
   can restrict a trial to one NUMA node, put the applications on another node, or only the
   generator (`generator-apart`). A request that the machine cannot satisfy is refused.
9. A switch that is not pinned starts on the cores that rules 1 to 8 give it, and may move over all
   cores afterwards. All other programs are placed as for a pinned switch, so that the results can
   be compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from switchmark.errors import UnavailableError
from switchmark.host.facts import Cpu
from switchmark.model.choices import Idle
from switchmark.record import Placement

CATCH_UP_US = 1000
SHARED_CATCH_UP_US = 9000
BENCH_CPUS = 0.25  # used during the traffic by the bench and the helper threads of all programs
_APART = "numa: generator-apart"


@dataclass(frozen=True, slots=True)
class Demand:
    """The programs of a trial that need cores, and the cores that the campaign names."""

    pairs: tuple[tuple[str, ...], ...]  # node names of each pair, the sender first
    polling_switch: bool  # Capabilities.polling
    in_kernel_switch: bool  # forwards in the sender's softirq; the baseline also does
    switch_cores: int = 1
    idle: Idle = Idle.AUTO
    switch_cpus: tuple[int, ...] = ()  # named by the campaign; empty: chosen here
    application_cpus: tuple[int, ...] = ()  # the same; assigned in turn, ends before VNFs
    neighbour_cpus: tuple[int, ...] = ()  # CPUs of the noisy neighbour, named by the campaign
    unpinned_switch: bool = False  # the kernel moves its threads
    main_cpu: int | None = None  # CPU of the switch's main thread; None: the switch chooses
    smt: str = "auto"  # or avoid, siblings
    numa: str = "auto"  # or same, other, generator-apart
    outside: tuple[str, ...] = ()  # nodes of the generator, if it is placed apart
    is_baseline: bool = False  # there is no switch

    @property
    def nodes(self) -> list[str]:
        """Return all node names, pair by pair."""
        return [name for pair in self.pairs for name in pair]

    @property
    def names_nodes(self) -> bool:
        """Return True if the campaign chooses cores that may lie on several NUMA nodes."""
        return self.numa in ("other", "generator-apart") or bool(
            self.application_cpus or self.switch_cpus
        )


@dataclass(frozen=True, slots=True)
class _Assigned:
    """The CPUs of the switch, of the applications and of the bench."""

    switch: list[int]
    applications: list[int]  # at least one CPU; a CPU may take several applications
    housekeeping: int


def place(cpus: Sequence[Cpu], usable: Collection[int], demand: Demand) -> Placement:
    """Place a trial on a machine. `usable` is the affinity of this process.

    CPUs set apart with `isolcpus` are not in the default affinity of a process, and are meant for
    this purpose: they are also used, unless the affinity was narrowed further.
    Raises UnavailableError if the switch needs more cores than there are."""
    allowed = allowed_cpus(cpus, usable)
    _check_named(allowed, {"neighbour_cpus": demand.neighbour_cpus})
    candidates = _selected_cpus(allowed, demand.smt, demand.numa)
    ordered = _in_order(candidates)
    switch_cores = 0 if demand.in_kernel_switch else demand.switch_cores
    if switch_cores > len(ordered):
        raise UnavailableError(
            f"switch_cores: is {switch_cores}, but this process may use {len(ordered)} CPUs",
            remedy="use fewer",
        )
    main_cpu = () if demand.main_cpu is None else (demand.main_cpu,)
    named = {"switch_cpus": demand.switch_cpus, "application_cpus": demand.application_cpus}
    _check_named(candidates, {**named, "main_cpu": main_cpu})
    cores = _choose(ordered, switch_cores, demand)
    if demand.numa == "generator-apart":
        applications = _place_generator_apart(cores, ordered, demand)
    else:
        applications = _assign(cores.applications, demand)
    unpinned = demand.unpinned_switch and not demand.in_kernel_switch
    movable = _movable_cores(candidates) if unpinned else []
    return _describe(demand, cores, applications, ordered, movable)


def place_within(
    cpus: Sequence[Cpu], usable: Collection[int], demand: Demand, quota: float | None
) -> Placement:
    """Place a trial as `place` does, on fewer CPUs if a CPU quota (in CPUs) requires it.

    In a container, the quota is often smaller than the number of allowed CPUs: 2 CPUs of 64.
    Polling programs on three of them would be stopped for a third of each period. So all programs,
    with the bench and all helper threads, are kept on as many CPUs as the quota has, rounded down,
    and cannot use it up. A trial that does not fit on so few CPUs is placed as without a quota;
    `needed_cpus` is then more than the quota. Raises UnavailableError as `place` does."""
    placed = place(cpus, usable, demand)
    if quota is None or needed_cpus(placed) <= quota:
        return placed
    few = _best_cpus(cpus, usable, demand, math.floor(quota))
    try:
        narrowed = place([cpu for cpu in cpus if cpu.id in few], few, demand)
    except UnavailableError:
        return placed
    reason = f"everything on {core_list(few)}, since the CPU quota is {quota:g} CPUs"
    return narrowed.model_copy(update={"only_cores": few, "reason": f"{narrowed.reason}; {reason}"})


def needed_cpus(placement: Placement) -> float:
    """Return the number of CPUs that the programs of a trial use at most.

    It counts each core that has a program, and a part of a CPU for the bench if it is alone on its
    core."""
    if placement.only_cores:
        return len(placement.only_cores)
    busy = {*placement.switch_cores, *placement.neighbour_cores}
    busy.update(core for cores in placement.application_cores.values() for core in cores)
    return len(busy) + BENCH_CPUS * (not busy.issuperset(placement.bench_cores))


def core_map(placement: Placement) -> dict[int, list[str]]:
    """Return the programs on each core: the switch, the bench, the neighbour and the nodes.

    A switch that is not pinned is at its first cores."""
    programs: dict[int, list[str]] = {}
    for name, cores in (
        ("unpinned-switch" if placement.switch_free_cores else "switch", placement.switch_cores),
        ("switch-main", [] if placement.switch_main_core is None else [placement.switch_main_core]),
        *placement.application_cores.items(),
        ("neighbour", placement.neighbour_cores),
        ("bench", placement.bench_cores),
    ):
        for core in cores:
            programs.setdefault(core, []).append(name)
    return dict(sorted(programs.items()))


def core_list(cores: Iterable[int]) -> str:
    """Return the different cores as text: `core 1`, `cores 1,2`."""
    distinct = sorted(set(cores))
    return ("core " if len(distinct) == 1 else "cores ") + ",".join(map(str, distinct))


# Which CPUs may be used, and in which order.


def allowed_cpus(cpus: Sequence[Cpu], usable: Collection[int]) -> list[Cpu]:
    """Return the CPUs in the affinity `usable`, and the isolated CPUs unless it was narrowed.

    Raises UnavailableError if there are none."""
    default = {cpu.id for cpu in cpus if not cpu.isolated}
    narrowed = not default <= set(usable)
    chosen = [cpu for cpu in cpus if cpu.id in usable or (cpu.isolated and not narrowed)]
    if not chosen:
        raise UnavailableError("placement: this process may use no CPU that is online")
    return chosen


def first_threads(cpus: Sequence[Cpu]) -> list[Cpu]:
    """Return the first CPU of each physical core: the CPUs that remain if SMT is switched off."""
    first: dict[tuple[int, int], Cpu] = {}
    for cpu in sorted(cpus, key=lambda cpu: cpu.id):
        first.setdefault(cpu.core, cpu)
    return list(first.values())


def _selected_cpus(candidates: Sequence[Cpu], smt: str, numa: str) -> list[Cpu]:
    """Return the CPUs that the keys `smt` and `numa` of the campaign permit."""
    chosen = sorted(candidates, key=lambda cpu: cpu.id)
    if smt == "avoid":
        chosen = first_threads(chosen)
    if numa == "same":
        home = _home_node(chosen)
        chosen = [cpu for cpu in chosen if cpu.node == home]
    return chosen


def _home_node(candidates: Sequence[Cpu]) -> int:
    """Return the NUMA node with most cores; isolated cores count first."""

    def rank(node: int) -> tuple[int, int, int]:
        local = [cpu for cpu in candidates if cpu.node == node]
        return (sum(cpu.isolated for cpu in local), len({cpu.core for cpu in local}), -node)

    return max({cpu.node for cpu in candidates}, key=rank)


def _in_order(candidates: Sequence[Cpu]) -> list[Cpu]:
    """Return the housekeeping CPU, then the others in the order of rule 1."""
    home = _home_node(candidates)
    threads: dict[tuple[int, int], int] = {}
    ranks = {}
    for cpu in sorted(candidates, key=lambda cpu: cpu.id):
        sibling = threads[cpu.core] = threads.get(cpu.core, -1) + 1
        ranks[cpu] = (sibling, not cpu.isolated, cpu.node != home, cpu.node, cpu.id)
    ordered = sorted(candidates, key=lambda cpu: ranks[cpu])
    housekeeping = next((cpu for cpu in ordered if not cpu.isolated), ordered[0])
    ordered.remove(housekeeping)
    return [housekeeping, *ordered]


def _best_cpus(
    cpus: Sequence[Cpu], usable: Collection[int], demand: Demand, count: int
) -> list[int]:
    """Return `count` CPUs: first those that the campaign names, then the best of the others."""
    ordered = _in_order(_selected_cpus(allowed_cpus(cpus, usable), demand.smt, demand.numa))
    named = {*demand.switch_cpus, *demand.application_cpus, *demand.neighbour_cpus}
    by_rank = sorted(ordered, key=lambda cpu: cpu.id not in named)
    return sorted(cpu.id for cpu in by_rank[:count])


def _movable_cores(candidates: Sequence[Cpu]) -> list[int]:
    """Return the cores over which the kernel moves threads: all except the isolated cores.

    Raises UnavailableError if there are fewer than two."""
    movable = [cpu.id for cpu in candidates if not cpu.isolated]
    if len(movable) > 1:
        return movable
    why = " that are not isolated" if len(movable) < len(candidates) else ""
    raise UnavailableError(
        f"switch_cpus: any: this process may use {len(movable)} CPU"
        f"{'' if len(movable) == 1 else 's'}{why}, so the kernel cannot move the switch",
        remedy="use switch_cpus: auto",
    )


def _check_named(candidates: Sequence[Cpu], named: Mapping[str, Sequence[int]]) -> None:
    """Raise UnavailableError if the campaign names cores, by key, that may not be used."""
    known = {cpu.id for cpu in candidates}
    for key, cores in named.items():
        if missing := sorted(set(cores) - known):
            raise UnavailableError(
                f"{key}: this process may not use CPU {', '.join(map(str, missing))}",
                remedy=f"it may use {', '.join(map(str, sorted(known)))}",
            )


# Which program runs on which core.


def _choose(ordered: Sequence[Cpu], switch_cores: int, demand: Demand) -> _Assigned:
    """Choose cores: the cores that the campaign names, and the best of the others for the rest.

    Raises UnavailableError if the machine has no cores as the campaign requires."""
    named = list(demand.application_cpus)
    switch = list(demand.switch_cpus) or _switch_cores(ordered, switch_cores, named)
    if demand.smt == "siblings" or demand.numa == "other":
        applications = _cores_apart(ordered, switch, demand)
    else:
        applications = _application_cores(ordered, switch, len(demand.nodes))
    return _Assigned(switch, named or applications, ordered[0].id)


def _switch_cores(ordered: Sequence[Cpu], count: int, named: Collection[int]) -> list[int]:
    """Choose the cores of the switch.

    As far as there are others, the named cores of applications, their siblings and the housekeeping
    core are avoided, in this order."""
    housekeeping, *rest = ordered
    busy = {cpu.core for cpu in ordered if cpu.id in named}
    by_rank = sorted((*rest, housekeeping), key=lambda cpu: (cpu.id in named, cpu.core in busy))
    return [cpu.id for cpu in by_rank[:count]]


def _application_cores(ordered: Sequence[Cpu], switch: Collection[int], count: int) -> list[int]:
    """Choose at most `count` cores for the applications, the housekeeping core last.

    The cores of the switch and their siblings are avoided. If only siblings are left, one of them
    is used; if the switch has every CPU, the housekeeping core is."""
    housekeeping, *rest = ordered
    busy = {cpu.core for cpu in ordered if cpu.id in switch}
    free = [cpu for cpu in (*rest, housekeeping) if cpu.id not in switch]
    chosen = [cpu for cpu in free if cpu.core not in busy] or free[-1:] or [housekeeping]
    return [cpu.id for cpu in chosen[:count]]


def _cores_apart(ordered: Sequence[Cpu], switch: Collection[int], demand: Demand) -> list[int]:
    """Choose cores for the applications on siblings of the switch's cores, or on another node.

    Raises UnavailableError if the machine has none."""
    of_switch = [cpu for cpu in ordered if cpu.id in switch]
    others = [cpu for cpu in ordered if cpu.id not in switch]
    if demand.smt == "siblings":
        cores = {cpu.core for cpu in of_switch}
        others = [cpu for cpu in others if cpu.core in cores]
        if not others:
            raise UnavailableError(
                "smt: siblings: the switch's cores have no SMT siblings that this process may use",
                remedy="use smt: auto, or a machine with SMT switched on",
            )
    if demand.numa == "other":
        nodes = {cpu.node for cpu in of_switch}
        others = [cpu for cpu in others if cpu.node not in nodes]
        if not others:
            count = len({cpu.node for cpu in ordered})
            raise UnavailableError(
                f"numa: other: this process may use CPUs of {count} NUMA node"
                f"{'' if count == 1 else 's'}, none of them apart from the switch's",
                remedy="use numa: auto",
            )
    return [cpu.id for cpu in others][: len(demand.nodes)]


def _assign(cores: Sequence[int], demand: Demand) -> dict[str, list[int]]:
    """Assign cores to the applications by rule 5."""
    names, count = demand.nodes, len(cores)
    if count >= len(names):
        # The housekeeping core is the last core. If it must be used, it goes to a receiver: an
        # interrupted sender misses its schedule, but a receiver has a queue.
        return {name: [core] for name, core in zip(names, cores, strict=False)}
    placed: dict[str, list[int]] = {}
    for index, pair in enumerate(demand.pairs):
        for end, name in enumerate(pair):
            shift = end * max(1, count // 2) if demand.in_kernel_switch else 0
            placed[name] = [cores[(index + shift) % count]]
    return placed


def _place_generator_apart(
    cores: _Assigned, ordered: Sequence[Cpu], demand: Demand
) -> dict[str, list[int]]:
    """Assign cores as in Zhang et al. (CoNEXT 2019, section 5.1): the generator on another node.

    The ends of the generator are on another NUMA node than the switch. VNFs, and applications in
    the places of VNFs, are on the switch's node. Each program has its own core, which is not an SMT
    sibling of the switch's cores. The node of a switch without cores is the node with most cores.
    Raises UnavailableError if nodes or cores do not suffice: nothing is shared."""
    switch = [cpu for cpu in ordered if cpu.id in cores.switch]
    home = switch[0].node if switch else _home_node(ordered)
    inside = [name for name in demand.nodes if name not in demand.outside]
    outside = demand.outside
    if others := sorted({cpu.node for cpu in switch} - {home}):
        raise UnavailableError(
            f"{_APART}: the switch's cores are on NUMA node {home} and on {others[0]}",
            remedy="give it fewer, or name those of one node with switch_cpus",
        )
    busy = {cpu.core for cpu in switch}
    free = [cpu for cpu in (*ordered[1:], ordered[0]) if cpu.core not in busy]
    at_home = [cpu for cpu in free if cpu.node == home]
    nodes = sorted({cpu.node for cpu in free} - {home})
    away = max(([cpu for cpu in free if cpu.node == node] for node in nodes), key=len, default=[])
    if outside and not away:
        raise UnavailableError(
            f"{_APART}: the generator must be on another NUMA node than the switch, and this "
            "process may use CPUs of one node",
            remedy="use numa: auto",
        )
    beside = f"VNFs and applications beside the switch on NUMA node {home}"
    _check_enough(len(inside), at_home, beside)
    _check_enough(
        len(outside), away, f"ends of the generator on NUMA node {away[0].node if away else None}"
    )
    chosen = dict(zip(inside, at_home, strict=False)) | dict(zip(outside, away, strict=False))
    return {name: [cpu.id] for name, cpu in chosen.items()}


def _check_enough(count: int, free: Sequence[Cpu], programs: str) -> None:
    if count > len(free):
        raise UnavailableError(
            f"{_APART}: {count} {programs} need a core each, and {len(free)} are free there",
            remedy="use fewer pairs or a shorter chain, or numa: auto",
        )


# The placement and its reasons in words, for plans and records.


def _describe(
    demand: Demand,
    cores: _Assigned,
    applications: dict[str, list[int]],
    ordered: Sequence[Cpu],
    movable: list[int],
) -> Placement:
    used = [core for assigned in applications.values() for core in assigned]
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
        _switch_reason(demand, cores.switch, movable),
        _application_reason(used, crowded, with_switch),
        *_smt_reasons(cores.switch, used, ordered, requested=demand.smt == "siblings"),
        *_numa_reasons(cores.switch, used, ordered, requested=demand.names_nodes),
        *_apart_reasons([applications[name][0] for name in demand.outside], ordered),
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
        switch_free_cores=movable,
        switch_main_core=demand.main_cpu,
    )


def _bench_cores(cores: _Assigned, used: Sequence[int], ordered: Sequence[Cpu]) -> list[int]:
    """Return the core of the bench: the housekeeping core, or an idle core if it is in use.

    It is never a core of the switch. If the campaign gives the housekeeping core to the switch, the
    bench shares the core of an application."""
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


def _switch_reason(demand: Demand, switch: Sequence[int], movable: Sequence[int]) -> str:
    if demand.is_baseline:
        left = f"; {core_list(switch)} stays idle, as if a switch polled there" if switch else ""
        return f"no switch: the applications exchange frames directly{left}"
    if demand.in_kernel_switch:
        return "the switch works in the kernel, on the senders' cores"
    kind = "polling switch" if demand.polling_switch else "switch process"
    if movable:
        first = core_list(switch)
        return f"{kind} not pinned: it starts on {first} and moves over {core_list(movable)}"
    return f"{kind} on {core_list(switch)}"


def _application_reason(used: Sequence[int], crowded: set[int], with_switch: Sequence[int]) -> str:
    if with_switch:
        return (
            f"oversubscribed: {len(used)} applications share {core_list(used)} with the switch, "
            "because there is no other CPU"
        )
    if crowded:
        most = max(used.count(core) for core in crowded)
        return f"oversubscribed: {len(used)} applications share {core_list(used)}" + (
            f" (at most {most} on one core)" if len(crowded) > 1 else ""
        )
    return f"each application has its own core ({core_list(used)})"


def _smt_reasons(
    switch: Sequence[int], used: Sequence[int], ordered: Sequence[Cpu], *, requested: bool
) -> list[str]:
    busy = _busy_cpus(switch, used, ordered)
    if len({cpu.core for cpu in busy}) == len(busy):
        return []
    why = ", as requested" if requested else ""
    return [f"some CPUs are SMT siblings{why}, and share the execution units of one core"]


def _numa_reasons(
    switch: Sequence[int], used: Sequence[int], ordered: Sequence[Cpu], *, requested: bool
) -> list[str]:
    if len({cpu.node for cpu in _busy_cpus(switch, used, ordered)}) == 1:
        return []
    why = "as requested" if requested else "because one node has too few cores"
    return [f"the programs are on several NUMA nodes, {why}"]


def _apart_reasons(generator: Sequence[int], ordered: Sequence[Cpu]) -> list[str]:
    nodes = {cpu.node for cpu in ordered if cpu.id in generator}
    return [f"the generator is apart, on NUMA node {node}" for node in nodes]


def _busy_cpus(switch: Sequence[int], used: Sequence[int], ordered: Sequence[Cpu]) -> list[Cpu]:
    by_id = {cpu.id: cpu for cpu in ordered}
    return [by_id[core] for core in dict.fromkeys((*switch, *used))]
