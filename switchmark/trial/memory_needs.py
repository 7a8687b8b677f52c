"""The memory that the DPDK processes of a trial need: the switch and the applications."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from switchmark.campaign.notation import to_notation
from switchmark.environment.registry import traits_of
from switchmark.errors import Refusal
from switchmark.host.hugepages import HugepagePool, lacking
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.model.choices import OWN_ENGINE
from switchmark.model.io import Io
from switchmark.model.ports import PortKind, SwitchPort
from switchmark.switch.support.base import TakesHugepages
from switchmark.trial.plan import TrialPlan

ENGINE_MB = 64  # the least that an engine takes (MEMORY_MB in engine/io/dpdk_spec.c)


def memory_needs_mb(plan: TrialPlan) -> list[int]:
    """Return the least memory in MiB of each DPDK process on this host; empty without such a
    process. Engines take more for large frames. Applications in virtual machines have the memory
    of the machine."""
    return [*_of_switch(plan), *applications_mb(plan)]


def applications_mb(plan: TrialPlan) -> list[int]:
    """Return the same for the applications alone."""
    kind, topology = plan.port_kind, plan.topology
    count = 0
    if not traits_of(plan.trial.environment).guests and plan.far is None:
        on_dpdk = plan.io is Io.DPDK
        every = kind in (PortKind.VHOST_USER, PortKind.MEMIF)  # including VNFs
        count = sum(on_dpdk and (every or node.role != "vnf") for node in topology.nodes)
    return [max(ENGINE_MB, _of_instrument(plan))] * count


def _of_instrument(plan: TrialPlan) -> int:
    """Return the memory in MiB of each end of a foreign generator, which replaces the engines."""
    generator = plan.trial.generator
    return 0 if generator == OWN_ENGINE else INSTRUMENTS[generator]().abilities.memory_mb


def _of_switch(plan: TrialPlan) -> list[int]:
    if not isinstance(plan.switch, TakesHugepages) or not plan.switch.capabilities.page_sizes:
        return []
    ports = [
        SwitchPort(port.index, plan.port_kind, port.mac, mtu_bytes=spec.port.mtu_bytes)
        for node, spec in zip(plan.topology.nodes, plan.specs(), strict=True)
        for port in node.ports
    ]
    return plan.switch.hugepages_mb(sorted(ports, key=lambda port: port.index), plan.mode)


def lacking_for(
    plan: TrialPlan, pools: Sequence[HugepagePool], *, free: bool = False
) -> Refusal | None:
    """Return the refusal of a trial for which too few hugepages are reserved (`free`: are free
    now); None if there are enough, or its memory lies on small pages."""
    if plan.small_pages:
        return None
    refusal = lacking(memory_needs_mb(plan), pools, free=free)
    if refusal is None or plan.switch.capabilities.needs_hugepages:
        return refusal
    return replace(refusal, instead="use page_size: 4KiB")


def too_little_memory(plans: Iterable[TrialPlan], pools: Sequence[HugepagePool]) -> list[str]:
    """Return a line for each need of more hugepages than are reserved, with the first trial that
    has this need."""
    first: dict[tuple[int, ...], TrialPlan] = {}
    for plan in plans:
        if not plan.small_pages:
            first.setdefault(tuple(memory_needs_mb(plan)), plan)
    lines = {
        refusal: plan
        for plan in first.values()
        if (refusal := lacking_for(plan, pools)) is not None
    }
    return [f"{to_notation(plan.trial)}: {refusal}" for refusal, plan in lines.items()]
