"""Which CPUs a trial may use, and in which order they are handed out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from switchmark.errors import UnavailableError
from switchmark.host.facts import Cpu


def candidates_of(cpus: Sequence[Cpu], usable: Collection[int]) -> list[Cpu]:
    """The CPUs in the affinity `usable`, and the isolated ones, unless the affinity was narrowed
    further. Raises UnavailableError where there are none."""
    default = {cpu.id for cpu in cpus if not cpu.isolated}
    narrowed = not default <= set(usable)
    chosen = [cpu for cpu in cpus if cpu.id in usable or (cpu.isolated and not narrowed)]
    if not chosen:
        raise UnavailableError("placement: this process may use no CPU that is online")
    return chosen


def wanted_cpus(candidates: Sequence[Cpu], smt: str, numa: str) -> list[Cpu]:
    """The CPUs that may be used at all, by the campaign's choice of siblings and nodes."""
    chosen = sorted(candidates, key=lambda cpu: cpu.id)
    if smt == "avoid":
        chosen = first_threads(chosen)
    if numa == "same":
        home = home_node(chosen)
        chosen = [cpu for cpu in chosen if cpu.node == home]
    return chosen


def first_threads(cpus: Sequence[Cpu]) -> list[Cpu]:
    """The first CPU of each physical core, which stays where SMT is switched off."""
    first: dict[tuple[int, int], Cpu] = {}
    for cpu in sorted(cpus, key=lambda cpu: cpu.id):
        first.setdefault(cpu.core, cpu)
    return list(first.values())


def home_node(candidates: Sequence[Cpu]) -> int:
    """The NUMA node with most cores; isolated ones count first."""

    def worth(node: int) -> tuple[int, int, int]:
        own = [cpu for cpu in candidates if cpu.node == node]
        return (sum(cpu.isolated for cpu in own), len({cpu.core for cpu in own}), -node)

    return max({cpu.node for cpu in candidates}, key=worth)


def in_order(candidates: Sequence[Cpu]) -> list[Cpu]:
    """The CPUs in the order of rule 1 of placement.py, the best first; the housekeeping core goes
    before all."""
    home = home_node(candidates)
    threads: dict[tuple[int, int], int] = {}
    ranks = {}
    for cpu in sorted(candidates, key=lambda cpu: cpu.id):
        sibling = threads[cpu.core] = threads.get(cpu.core, -1) + 1
        ranks[cpu] = (sibling, not cpu.isolated, cpu.node != home, cpu.node, cpu.id)
    ordered = sorted(candidates, key=lambda cpu: ranks[cpu])
    housekeeping = next((cpu for cpu in ordered if not cpu.isolated), ordered[0])
    ordered.remove(housekeeping)
    return [housekeeping, *ordered]


def free_cores(candidates: Sequence[Cpu]) -> list[int]:
    """The cores that the kernel moves threads over: it leaves isolated ones alone. Raises
    UnavailableError where there are fewer than two."""
    free = [cpu.id for cpu in candidates if not cpu.isolated]
    if len(free) > 1:
        return free
    why = " that are not isolated" if len(free) < len(candidates) else ""
    raise UnavailableError(
        f"switch_cpus: any: this process may use {len(free)} CPU{'' if len(free) == 1 else 's'}"
        f"{why}, so that there is nothing to move over",
        remedy="use switch_cpus: auto",
    )
