"""The state of an item on this machine: its campaign here, and reasons for missing parts.

A campaign is planned, and its switches and environments are checked, as by `run`. Substitutes of
the item are set if the machine lacks something.
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

KVM = "kvm"  # value of `unless` of a substitute


@dataclass(frozen=True, slots=True)
class ItemState:
    """An item on this machine."""

    item: Item
    campaign: CampaignDefinition | None  # without parts that are left out; None: it cannot run
    steps: tuple[Step, ...] = ()
    settings: tuple[str, ...] = ()  # settings of `--set` for its substitutes
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # notes on its substitutes
    reason: str = ""  # reason why it cannot run
    trials: int = field(default=0)  # number of trials in one repetition

    @property
    def runs(self) -> bool:
        """True if a part of it can run here."""
        return self.campaign is not None

    @property
    def words(self) -> str:
        """The state in one line."""
        if not self.runs:
            known = "cannot run here" in self.reason
            return self.reason if known else f"cannot run here: {self.reason}"
        less = f", {_counted(len(self.left_out), 'contender')} left out" if self.left_out else ""
        notes = f"; {'; '.join(self.notes)}" if self.notes else ""
        return f"runs here, {_counted(self.trials, 'trial')} per repetition{less}{notes}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def state_of(
    item: Item, installed: Installed, *, more: Sequence[str] = (), site: Site | None = None
) -> ItemState:
    """Return the state of the item here; `more` are additional settings."""
    substitutes = [entry for entry in item.stand_in if _is_needed(entry)]
    settings = tuple(setting for entry in substitutes for setting in entry.set)
    notes = tuple(map(_note, substitutes))
    try:
        campaign = find_campaign(item.campaign, installed.known, [*settings, *more])
        if site is None and any("remote" in sweep.location for sweep in campaign.sweeps):
            reason = "needs a second host and a cable between them; name them with --testbed"
            return ItemState(item, None, settings=settings, notes=notes, reason=reason)
        prepared = prepare(campaign, installed, baselines=False, site=site)
        prepared.check()
    except SwitchmarkError as error:
        reason = "; ".join(dict.fromkeys(str(error).splitlines()))
        return ItemState(item, None, settings=settings, notes=notes, reason=reason)
    steps, left_out = tuple(prepared.steps), tuple(prepared.left_out)
    trials = sum(step.plan.trial.repetition == 0 for step in steps)
    return ItemState(item, prepared.campaign, steps, settings, left_out, notes, "", trials)


def _is_needed(substitute: StandIn) -> bool:
    """Return True if this machine lacks the part that the substitute replaces."""
    kind, _, number = substitute.unless.partition(" ")
    if kind == KVM:
        return not has_kvm()
    if kind == "cores":
        return len(os.sched_getaffinity(0)) < int(number)
    if kind == "nodes":
        usable = os.sched_getaffinity(0)
        return len({cpu.node for cpu in read_cpus() if cpu.id in usable}) < int(number)
    raise ValueError(f"stand_in: unless {substitute.unless!r} is unknown")


def _note(substitute: StandIn) -> str:
    """Return the note of a substitute, with a remark if it may not be necessary."""
    is_unknown = substitute.unless == KVM and has_kvm() is None
    remark = " (whether guests start on KVM was not tried yet)" if is_unknown else ""
    return f"{substitute.note}{remark}"


def try_kvm(items: Iterable[Item]) -> None:
    """Start a guest on KVM if an item has a substitute for KVM, and it is unknown if guests start
    on this boot of the machine. It stays unknown if no guest is installed."""
    substitutes = (substitute for item in items for substitute in item.stand_in)
    if any(substitute.unless == KVM for substitute in substitutes) and has_kvm() is None:
        with suppress(SwitchmarkError), open_session(measuring=False) as session:
            accelerator_here(session.host)
