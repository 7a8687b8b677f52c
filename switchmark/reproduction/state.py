"""What this machine can do of an item: its campaign as it would run here, and why not all of it.

A campaign is planned and its switches and environments are asked, as `run` does; stand-ins of the
item are set where the machine lacks what they are for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from switchmark.campaign.find import find_campaign
from switchmark.campaign.installed import Installed
from switchmark.environment.qemu import accelerator_here, has_kvm
from switchmark.errors import SwitchmarkError
from switchmark.experiment.prepare import prepare
from switchmark.experiment.steps import Step
from switchmark.host.facts import read_cpus
from switchmark.host.session import open_session
from switchmark.model.campaign import CampaignDefinition
from switchmark.remote.site import Site
from switchmark.reproduction.paper import Item, StandIn

KVM = "kvm"  # what a stand-in is for


@dataclass(frozen=True, slots=True)
class ItemState:
    """An item on this machine."""

    item: Item
    campaign: CampaignDefinition | None  # without what is left out; None: nothing of it can run
    steps: tuple[Step, ...] = ()
    settings: tuple[str, ...] = ()  # as of `--set`, that stand-ins need
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what stands in for what
    reason: str = ""  # why it cannot run at all
    trials: int = field(default=0)  # of one repetition

    @property
    def runs(self) -> bool:
        """Whether any part of it can run here."""
        return self.campaign is not None

    @property
    def words(self) -> str:
        """The state in one line."""
        if not self.runs:
            known = "cannot run here" in self.reason
            return self.reason if known else f"cannot run here: {self.reason}"
        less = f", {_counted(len(self.left_out), 'contender')} left out" if self.left_out else ""
        told = f"; {'; '.join(self.notes)}" if self.notes else ""
        return f"runs here, {_counted(self.trials, 'trial')} per repetition{less}{told}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def state_of(
    item: Item, there: Installed, *, more: Sequence[str] = (), site: Site | None = None
) -> ItemState:
    """The item as it would run here; `more` are further settings."""
    standing = [one for one in item.stand_in if _lacks(one)]
    settings = tuple(setting for one in standing for setting in one.set)
    notes = tuple(_note(one) for one in standing)
    try:
        campaign = find_campaign(item.campaign, there.known, [*settings, *more])
        if site is None and any("remote" in sweep.location for sweep in campaign.sweeps):
            reason = "needs a second host and a cable between them; name them with --testbed"
            return ItemState(item, None, settings=settings, notes=notes, reason=reason)
        prepared = prepare(campaign, there, baselines=False, site=site)
        prepared.check()
    except SwitchmarkError as error:
        reason = "; ".join(dict.fromkeys(str(error).splitlines()))
        return ItemState(item, None, settings=settings, notes=notes, reason=reason)
    steps, left_out = tuple(prepared.steps), tuple(prepared.left_out)
    trials = sum(step.plan.trial.repetition == 0 for step in steps)
    return ItemState(item, prepared.campaign, steps, settings, left_out, notes, "", trials)


def _lacks(one: StandIn) -> bool:
    """Whether this machine lacks what the stand-in is for."""
    kind, _, number = one.unless.partition(" ")
    if kind == KVM:
        return not has_kvm()
    if kind == "cores":
        return len(os.sched_getaffinity(0)) < int(number)
    if kind == "nodes":
        usable = os.sched_getaffinity(0)
        return len({cpu.node for cpu in read_cpus() if cpu.id in usable}) < int(number)
    raise ValueError(f"stand-in unless {one.unless!r}: not known")


def _note(one: StandIn) -> str:
    """What stands in for what, and that it may not have to."""
    untried = one.unless == KVM and has_kvm() is None
    return f"{one.note} (whether guests start on KVM was not tried yet)" if untried else one.note


def try_kvm(items: Iterable[Item]) -> None:
    """Start a guest on KVM if an item has a stand-in without it, and it is not known whether guests
    start: before what is measured is chosen, and once a boot of this machine. Where there is no
    guest to try it with, it stays unknown."""
    if any(one.unless == KVM for item in items for one in item.stand_in) and has_kvm() is None:
        with suppress(SwitchmarkError), open_session(measuring=False) as session:
            accelerator_here(session.host)
