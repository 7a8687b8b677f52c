"""The page size of DPDK's memory, which is the same for all trials of a run with the default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from switchmark.errors import UnavailableError
from switchmark.experiment.steps import Step
from switchmark.host import hugepages, place
from switchmark.host.place import Facility
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.page_size import PageSize
from switchmark.record.page_sizes import in_words
from switchmark.results.run_directory import Run
from switchmark.trial.page_size import (
    AUTO,
    PageChoice,
    choose,
    planned_kib,
    uses_dpdk_memory,
    why_no_hugepages,
)
from switchmark.trial.plan import with_pages


def choose_pages(steps: Sequence[Step]) -> tuple[list[Step], PageChoice | None]:
    """Choose one page size for all trials that do not set it. Return the steps with this size, and
    the reason for it; None if no trial depends on it."""
    pages = choose([step.plan for step in steps])
    if pages is None:
        return list(steps), None
    return [
        replace(step, plan=with_pages(step.plan, pages.is_small))
        if step.plan.trial.page_size == AUTO
        else step
        for step in steps
    ], pages


def with_such_pages(
    campaign: CampaignDefinition, steps: list[Step], pages: PageChoice | None
) -> tuple[list[Step], list[str], list[str]]:
    """Return the steps whose switch works with the chosen pages, reasons why others are left out,
    and reasons why the start is refused."""
    if (problem := _no_hugepages(steps)) is not None:
        return steps, [], [f"{campaign.name}: page_size huge: {problem}; or use page_size: auto"]
    if pages is None or not pages.is_small:
        return steps, [], []
    unable = {
        step.plan.switch.name
        for step in steps
        if step.plan.small_pages and step.plan.switch.capabilities.needs_hugepages
    }
    if not unable:
        return steps, [], []
    problems = [f"{name}: works in hugepages only: {pages.reason}" for name in sorted(unable)]
    able = [step for step in steps if step.plan.switch.name not in unable]
    if campaign.skip_unavailable and any(not step.is_baseline for step in able):
        wires = {step.baseline.id for step in able if step.baseline is not None}
        needed = [s for s in able if not s.is_baseline or s.plan.trial.id in wires]
        return needed, problems, []
    return steps, [], [f"{campaign.name}: {problem}" for problem in problems]


def _no_hugepages(steps: Iterable[Step]) -> str | None:
    """Return why programs cannot start in hugepages here, if a trial asks for them. Too few free
    pages are another reason; a control group can refuse even free ones."""
    plans = (step.plan for step in steps)
    huge = [
        plan
        for plan in plans
        if plan.trial.page_size == PageSize.HUGE.value and uses_dpdk_memory(plan)
    ]
    if not huge:
        return None
    refused = place.missing(Facility.HUGEPAGES) if hugepages.free_mb() else None
    problem = refused or why_no_hugepages(huge)
    return str(problem.refusal) if problem else None


def check_pages(run: Run, steps: Iterable[Step]) -> None:
    """Raise UnavailableError if the run cannot be resumed, because its earlier trials had another
    page size than its next trials."""
    for step in steps:
        trial, planned = step.plan.trial, planned_kib(step.plan)
        if trial.page_size != AUTO or planned is None or not run.path_of(trial.id).exists():
            continue
        used = run.read(trial.id).page_size_kib
        if used == planned:
            return
        if used is not None:
            raise UnavailableError(
                f"{run.directory}: DPDK's memory had {in_words(used)}, and would have "
                f"{in_words(planned)} now",
                remedy="begin a new run without --resume, or restore the hugepages of the machine "
                "(switchmark doctor)",
            )
