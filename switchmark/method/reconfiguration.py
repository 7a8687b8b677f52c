"""Reconfiguration: how long forwarding stops while ports or rules are added and removed.

Each change is made while a steady load passes, half of what the switch carries unless a rate is
set; the outage follows from the frames that are missing, and from the longest silence. The load
goes on until the change is done and for some time after it. A trial without any change comes first:
frames that are missing there are not the change's doing.

While a switch performs `route` or `acl`, its tables are changed instead (`table_churn.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from switchmark.errors import Refusal
from switchmark.method.support.disturbance import Disturbance, Disturber
from switchmark.method.support.disturbed_load import RELIEF, outage_figures, throughput
from switchmark.method.support.method import Method, trials_of_full_length
from switchmark.method.support.table_churn import Churn, entries_to_change
from switchmark.method.support.task import Task
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.changes import UNKNOWN_WAY, Change
from switchmark.model.choices import WIRE
from switchmark.record import MethodFigure, MethodResult
from switchmark.record.metric import method_metric

CHANGE_AT_SHARE = 1 / 3  # of the trial
LONGEST_CHANGE_S = 120.0
CHANGED = ("route", "acl")  # functions with tables that are changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigured:
    """One change and its effect on the traffic."""

    name: str
    seen: Disturbance


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguration:
    """All changes, in the order in which they were made."""

    quiet: Disturbance  # the same load with nothing done
    changes: tuple[Reconfigured, ...]
    notes: tuple[str, ...]

    @property
    def worst(self) -> Reconfigured:
        """The change with the longest outage."""
        return max(self.changes, key=lambda one: one.seen.outage_s)


def reconfigure(
    switch: Disturber, changes: Sequence[Change], *, load_pps: float, trial_s: float
) -> Reconfiguration:
    """Make one change after the other, each in its own trial, which lasts `trial_s` and as
    long as the change takes."""
    at_s = CHANGE_AT_SHARE * trial_s

    def during(action: Callable[[], Iterator[None] | None]) -> Disturbance:
        return switch.disturb(trial_s + LONGEST_CHANGE_S, load_pps, at_s, action, trial_s - at_s)

    quiet = during(_nothing)
    made = [Reconfigured(name=one.name, seen=during(one.apply)) for one in changes]
    return Reconfiguration(quiet=quiet, changes=tuple(made), notes=tuple(_notes(quiet, made)))


def _nothing() -> None:
    """The change of the trial in which nothing is changed."""


def _notes(quiet: Disturbance, made: Sequence[Reconfigured]) -> list[str]:
    notes = [f"{one.name}: the bench took {one.seen.action_s * 1e3:.0f} ms" for one in made]
    if quiet.missing_frames:
        notes.append(
            f"{quiet.missing_frames} frames ({quiet.outage_s * 1e3:.3g} ms) were missing with "
            "nothing done: shorter outages are not the changes' doing"
        )
    notes += [
        f"after '{one.name}' frames did not flow again while the trial ran"
        for one in made
        if not one.seen.resumed
    ]
    return notes


def run(task: Task) -> MethodResult:
    """Measure how long forwarding stops while ports or rules are changed."""
    churns = _churns(task)
    changes = [churn.change() for churn in churns] or task.switch_changes()
    throughput_pps, looks = throughput(task)
    load = throughput_pps if task.trial.rate_pps is not None else RELIEF * throughput_pps
    found = reconfigure(task.measurer, changes, load_pps=load, trial_s=task.trial.duration_s)
    figures = [
        MethodFigure(name="longest outage", value=found.worst.seen.outage_s, unit="s"),
        MethodFigure(name="load", value=load, unit="pps"),
        *outage_figures("nothing done", found.quiet),
    ]
    for one in found.changes:
        figures += outage_figures(one.name, one.seen)
    for churn, one in zip(churns, found.changes, strict=False):
        figures += churn.figures(one.seen)
    notes = [f"longest outage: {found.worst.name}", *found.notes]
    return task.result("longest outage", figures, warm_up_trials=looks, notes=notes)


def _churns(task: Task) -> list[Churn]:
    """Return what changes the tables of the trial's functions; empty if it has no such table."""
    trial = task.trial
    if not set(trial.function.names) & set(CHANGED):
        return []
    number = entries_to_change(trial.change_rate, trial.duration_s)
    return [Churn(one, number, trial.change_rate) for one in task.table_changes()]


def refusals(sweep: Sweep, switch: str, can: Capabilities) -> Iterator[Refusal]:
    """Return why this switch cannot be changed while it runs; empty when it can."""
    if switch == WIRE:
        return
    names = dict.fromkeys(name for one in sweep.function for name in one.names)
    changed = [name for name in names if name in CHANGED]
    for name in changed:
        if name not in can.changes_tables:
            why = can.cannot_change_tables.get(name, UNKNOWN_WAY)
            yield Refusal(
                f"{switch}: function {name}: {why}", "leave it out of method reconfiguration"
            )
    if not changed and not can.reconfigures:
        why = can.cannot_reconfigure or UNKNOWN_WAY
        yield Refusal(f"{switch}: {why}", "leave it out of method reconfiguration")


METHOD = Method(
    name="reconfiguration",
    meaning="outage while ports, table entries, routes or rules are added and removed",
    run=run,
    usual_time_s=trials_of_full_length(5),
    compared=(method_metric("longest outage", "s"),),
    needs_switch=True,
    refuse=refusals,
    one_host="it changes one switch, and here there are two; leave location: remote out",
    finds_outages=True,
    reads=("change_rate",),
)
