"""The hugepages that the processes of a trial take: those of the switch and of the applications."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from switchmark.campaign.notation import to_notation
from switchmark.engine.arguments import io_of
from switchmark.environment.registry import traits_of
from switchmark.model.io import Io
from switchmark.model.ports import PortKind, SwitchPort
from switchmark.switch.support.base import TakesHugepages
from switchmark.testbed.hugepages import HugepagePool, lacking
from switchmark.trial.plan import TrialPlan

ENGINE_MB = 64  # that an engine takes at least (MEMORY_MB in engine/io/dpdk_spec.c)


def memory_needs_mb(plan: TrialPlan) -> list[int]:
    """Return the hugepages in MiB of each process on this host: at least so many, since engines
    take more for large frames. Applications in virtual machines have the machine's memory."""
    kind, topology = plan.port_kind, plan.topology
    count = 0
    if not traits_of(plan.trial.environment).guests and plan.far is None:
        on_dpdk = io_of(plan.trial, kind) is Io.DPDK
        every = kind in (PortKind.VHOST_USER, PortKind.MEMIF)  # VNFs, too
        count = sum(on_dpdk and (every or node.role != "vnf") for node in topology.nodes)
    return [*_of_switch(plan), *[ENGINE_MB] * count]


def _of_switch(plan: TrialPlan) -> list[int]:
    if not isinstance(plan.switch, TakesHugepages) or not plan.switch.capabilities.needs_hugepages:
        return []
    ports = [
        SwitchPort(port.index, plan.port_kind, port.mac, mtu_bytes=spec.port.mtu_bytes)
        for node, spec in zip(plan.topology.nodes, plan.specs(), strict=True)
        for port in node.ports
    ]
    return plan.switch.hugepages_mb(sorted(ports, key=lambda port: port.index), plan.mode)


def too_little_memory(
    plans: Iterable[TrialPlan], found: Sequence[HugepagePool], *, free: bool = False
) -> list[str]:
    """Return a line for each way in which trials need more hugepages than are reserved (`free`:
    than are free now), with the first of those trials."""
    first: dict[tuple[int, ...], TrialPlan] = {}
    for plan in plans:
        first.setdefault(tuple(memory_needs_mb(plan)), plan)
    lines = {
        words: plan
        for needs, plan in first.items()
        if (words := lacking(needs, found, free=free)) is not None
    }
    return [f"{to_notation(plan.trial)}: {words}" for words, plan in lines.items()]
