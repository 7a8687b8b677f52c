"""Whether a certificate is about trials like this one: the same instruments, clock and cores.

`certify` measures with our own engine, on one host, in namespaces, on some cores and in one way of
waiting for frames. Of a trial that measured in another way nothing was tried.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.host.facts import Cpu
from switchmark.model.choices import OWN_ENGINE
from switchmark.record import Certificate, Placement, Record


def why_uncovered(held: Certificate, record: Record, cpus: Sequence[Cpu]) -> str:
    """What this trial measured with that was not tried; empty: the certificate is about it."""
    if record.trial.generator != OWN_ENGINE:
        return f"the traffic was made by {record.trial.generator}, which was not tried"
    if record.trial.location == "remote":
        return "the far host, its engine and the offset of its clock were not tried"
    inside = [one.node for one in record.engines if one.node in record.machines]
    if inside:
        return f"{inside[0]} ran in a virtual machine, whose kernel and clock were not tried"
    return _of_cores(held, record.placement, cpus) if record.placement else ""


def _of_cores(held: Certificate, placed: Placement, cpus: Sequence[Cpu]) -> str:
    if placed.idle != held.idle:
        return f"the applications waited by `{placed.idle}`, and `{held.idle}` was tried"
    used = sorted({core for own in placed.application_cores.values() for core in own})
    if len(used) < len(held.cores):
        return f"the applications shared {_cores(used)}, and {_cores(held.cores)} were tried"
    node_of = {cpu.id: cpu.node for cpu in cpus}
    tried = {node_of.get(core) for core in held.cores}
    away = [core for core in used if node_of.get(core) not in tried]
    if away:
        return f"core {away[0]} lies in another NUMA node than {_cores(held.cores)}"
    ours, theirs = siblings([*used, *placed.switch_cores], cpus), siblings(held.cores, cpus)
    if ours and not theirs:
        return f"{_cores(ours)} are SMT siblings, and such were not tried"
    return ""


def siblings(cores: Sequence[int], cpus: Sequence[Cpu]) -> list[int]:
    """Those of these cores that share a physical one with another of them."""
    within = {cpu.id: cpu.core for cpu in cpus}
    chosen = [within[core] for core in set(cores) if core in within]
    return sorted(core for core in set(cores) if chosen.count(within.get(core, (-1, -1))) > 1)


def _cores(cores: Sequence[int]) -> str:
    return f"core{'' if len(cores) == 1 else 's'} {', '.join(map(str, cores))}"
