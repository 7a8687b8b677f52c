"""The page size of the DPDK memory of trials: chosen once for a run, and checked afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from switchmark.engine.process import EngineProcess
from switchmark.errors import TrialFailed
from switchmark.host import hugepages, place
from switchmark.host.place import Facility
from switchmark.model.capabilities import Availability
from switchmark.model.nics import is_pci
from switchmark.model.page_size import PageSize
from switchmark.switch.support.pages import WithPages
from switchmark.trial.memory_needs import applications_mb, memory_needs_mb
from switchmark.trial.plan import TrialPlan, instrument_pages

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class PageChoice:
    """The page size that `page_size: auto` means in a run, with the reason."""

    size: PageSize
    reason: str

    @property
    def is_small(self) -> bool:
        """Return True for the kernel's ordinary pages."""
        return self.size is PageSize.SMALL


def choose(plans: Iterable[TrialPlan]) -> PageChoice | None:
    """Choose the pages of all trials with `page_size: auto`: hugepages if there are enough for
    each trial, otherwise small pages. None if no trial with DPDK memory leaves the choice open."""
    auto_plans = [plan for plan in plans if plan.trial.page_size == AUTO and uses_dpdk_memory(plan)]
    if not auto_plans:
        return None
    needs = {tuple(memory_needs_mb(plan)) for plan in auto_plans if not _is_fixed(plan)}
    if any(_only_huge(plan) for plan in auto_plans):
        return PageChoice(PageSize.HUGE, "a NIC by its PCI address works in hugepages only")
    if problem := place.missing(Facility.HUGEPAGES) or why_no_hugepages(auto_plans):
        return PageChoice(PageSize.SMALL, problem.clause)
    most = max(needs, key=sum, default=())
    obtained = hugepages.obtainable(most)
    lacking = [hugepages.lacking(one, obtained, free=True) for one in sorted(needs, key=sum)]
    if refusal := next(filter(None, reversed(lacking)), None):
        return PageChoice(PageSize.SMALL, str(refusal))
    return PageChoice(
        PageSize.HUGE,
        f"a trial takes {sum(most)} MiB of hugepages at most, and "
        f"{hugepages.free_mb(obtained)} MiB may be used ({hugepages.SHARE:.0%} of the free ones)",
    )


def why_no_hugepages(plans: Iterable[TrialPlan]) -> Availability | None:
    """Return why programs of these trials could not use hugepages in this place, however many there
    are; None if they could."""
    needs = {Facility.MEMORY_POLICY: None}
    for plan in plans:
        if isinstance(plan.switch, WithPages):
            needs |= dict.fromkeys(plan.switch.needs_for_hugepages)
    return place.missing(*needs)


def uses_dpdk_memory(plan: TrialPlan) -> bool:
    """Return True if a program of the trial on this host has packets in memory of DPDK or VPP."""
    return bool(memory_needs_mb(plan))


def planned_kib(plan: TrialPlan) -> int | None:
    """Return the page size of a trial's DPDK memory as it is planned; None if it has none."""
    if not uses_dpdk_memory(plan):
        return None
    return _kernel_page_kib() if plan.small_pages else hugepages.used_size_kb()


def ends_kib(plan: TrialPlan) -> int | None:
    """Return the page size of the DPDK memory of a trial's applications; None if they have none."""
    return planned_kib(plan) if applications_mb(plan) else None


def used_kib(plan: TrialPlan, engines: Sequence[EngineProcess]) -> int | None:
    """Return the page size of a trial's DPDK memory as its engines have reported it. Raises
    `TrialFailed` if it differs from the plan."""
    sizes = {
        size
        for engine in engines
        if not engine.in_guest and (size := engine.page_size_kib) is not None
    }
    if not sizes:
        return planned_kib(plan)
    if any((size == _kernel_page_kib()) != plan.small_pages for size in sizes):
        found = ", ".join(map(str, sorted(sizes)))
        planned = "small pages" if plan.small_pages else "hugepages"
        raise TrialFailed(f"DPDK's memory has pages of {found} KiB, and {planned} were planned")
    return min(sizes)


def _kernel_page_kib() -> int:
    return os.sysconf("SC_PAGE_SIZE") >> 10


def _is_fixed(plan: TrialPlan) -> bool:
    page_sizes = instrument_pages(plan.trial)
    return page_sizes is not None and len(page_sizes) == 1


def _only_huge(plan: TrialPlan) -> bool:
    return any(map(is_pci, plan.trial.nics.ports))
