"""Places a trial so that a CPU quota is enough for all its programs.

A quota below the number of allowed CPUs is the rule in a container: 2 CPUs of 64. Polling programs
on three of them would be stopped for a third of each period. So everything, the bench and the
helper threads of all programs included, is kept to as many CPUs as the quota has whole ones, and
cannot use it up.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from switchmark.errors import UnavailableError
from switchmark.host.cores.cpu_order import candidates_of, in_order, wanted_cpus
from switchmark.host.cores.demand import Demand
from switchmark.host.cores.placement import place
from switchmark.host.cores.placement_reason import core_list
from switchmark.host.facts import Cpu
from switchmark.record import Placement

BENCH_CPUS = 0.25  # used beside the traffic, with the helper threads of all programs


def place_within(
    cpus: Sequence[Cpu], usable: Collection[int], demand: Demand, quota: float | None
) -> Placement:
    """Place a trial as `place` does, on fewer CPUs if the quota requires it. A trial that does not
    fit on so few is placed as without a quota: `needed_cpus` is more than the quota then.

    Raises UnavailableError as `place` does."""
    placed = place(cpus, usable, demand)
    if quota is None or needed_cpus(placed) <= quota:
        return placed
    few = _kept(cpus, usable, demand, math.floor(quota))
    try:
        narrowed = place([cpu for cpu in cpus if cpu.id in few], few, demand)
    except UnavailableError:
        return placed
    reason = f"everything on {core_list(few)}, since the CPU quota is {quota:g} CPUs"
    return narrowed.model_copy(update={"only_cores": few, "reason": f"{narrowed.reason}; {reason}"})


def needed_cpus(placement: Placement) -> float:
    """The CPUs that the programs of a trial use at most: one for each core that one of them is on,
    and a part of one for the bench, if it has a core to itself."""
    if placement.only_cores:
        return len(placement.only_cores)
    busy = {*placement.switch_cores, *placement.neighbour_cores}
    busy.update(core for own in placement.application_cores.values() for core in own)
    return len(busy) + BENCH_CPUS * (not busy.issuperset(placement.bench_cores))


def _kept(cpus: Sequence[Cpu], usable: Collection[int], demand: Demand, count: int) -> list[int]:
    """Choose so many CPUs: those that the campaign names, then the best of the others."""
    ordered = in_order(wanted_cpus(candidates_of(cpus, usable), demand.smt, demand.numa))
    named = {*demand.switch_cpus, *demand.application_cpus, *demand.neighbour_cpus}
    by_worth = sorted(ordered, key=lambda cpu: cpu.id not in named)
    return sorted(cpu.id for cpu in by_worth[:count])
