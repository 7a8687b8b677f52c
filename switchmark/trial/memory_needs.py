"""The memory that the DPDK processes of a trial take: of the switch and of the applications."""

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

ENGINE_MB = 64  # that an engine takes at least (MEMORY_MB in engine/io/dpdk_spec.c)


def memory_needs_mb(plan: TrialPlan) -> list[int]:
    """Return the memory in MiB of each DPDK process on this host: at least so much, since engines
    take more for large frames; none: there is no such process. Applications in virtual machines
    have the machine's memory."""
    return [*_of_switch(plan), *applications_mb(plan)]


def applications_mb(plan: TrialPlan) -> list[int]:
    """Return the same for the applications alone."""
    kind, topology = plan.port_kind, plan.topology
    count = 0
    if not traits_of(plan.trial.environment).guests and plan.far is None:
        on_dpdk = plan.io is Io.DPDK
        every = kind in (PortKind.VHOST_USER, PortKind.MEMIF)  # VNFs, too
        count = sum(on_dpdk and (every or node.role != "vnf") for node in topology.nodes)
    return [max(ENGINE_MB, _of_instrument(plan))] * count


def _of_instrument(plan: TrialPlan) -> int:
    """The memory in MiB of each end of a foreign instrument, which takes the engines' place."""
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
    plan: TrialPlan, found: Sequence[HugepagePool], *, free: bool = False
) -> Refusal | None:
    """Return the hugepages that a trial lacks of those that are reserved (`free`: that are free
    now), with the remedy; None if there are enough, or its memory lies on small pages."""
    if plan.small_pages:
        return None
    words = lacking(memory_needs_mb(plan), found, free=free)
    if words is None or plan.switch.capabilities.needs_hugepages:
        return words
    return replace(words, instead="use page_size: 4KiB")


def too_little_memory(
    plans: Iterable[TrialPlan], found: Sequence[HugepagePool], *, free: bool = False
) -> list[str]:
    """Return a line for each way in which trials need more hugepages than are reserved (`free`:
    than are free now), with the first of those trials."""
    first: dict[tuple[int, ...], TrialPlan] = {}
    for plan in plans:
        if not plan.small_pages:
            first.setdefault(tuple(memory_needs_mb(plan)), plan)
    lines = {
        words: plan
        for plan in first.values()
        if (words := lacking_for(plan, found, free=free)) is not None
    }
    return [f"{to_notation(plan.trial)}: {words}" for words, plan in lines.items()]
