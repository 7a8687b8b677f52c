"""Reconfiguration: the outage of forwarding while ports or rules are added and removed.

Each change is made while a steady load passes: the set rate, or half of the load that the switch
carries. The outage is computed from the missing frames, and from the longest silence. The load
continues until the change is done and for some time after it. A trial without any change comes
first, which shows the missing frames that changes do not cause.

If the switch performs `route` or `acl`, its tables are changed instead (`table_churn.py`).
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

CHANGE_AT_SHARE = 1 / 3  # time of the change, as a share of the trial
LONGEST_CHANGE_S = 120.0
CHANGED = ("route", "acl")  # functions with tables that are changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigured:
    """One change and its effect on the traffic."""

    name: str
    disturbance: Disturbance


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguration:
    """All changes in their order."""

    quiet: Disturbance  # the same load without a change
    changes: tuple[Reconfigured, ...]
    notes: tuple[str, ...]

    @property
    def worst(self) -> Reconfigured:
        """The change with the longest outage."""
        return max(self.changes, key=lambda change: change.disturbance.outage_s)


def reconfigure(
    switch: Disturber, changes: Sequence[Change], *, load_pps: float, trial_s: float
) -> Reconfiguration:
    """Make one change after the other, each in its own trial of `trial_s` plus the time of the
    change."""
    at_s = CHANGE_AT_SHARE * trial_s

    def during(action: Callable[[], Iterator[None] | None]) -> Disturbance:
        return switch.disturb(trial_s + LONGEST_CHANGE_S, load_pps, at_s, action, trial_s - at_s)

    quiet = during(_nothing)
    results = [
        Reconfigured(name=change.name, disturbance=during(change.apply)) for change in changes
    ]
    return Reconfiguration(quiet=quiet, changes=tuple(results), notes=tuple(_notes(quiet, results)))


def _nothing() -> None:
    """Change nothing, in the trial without a change."""


def _notes(quiet: Disturbance, results: Sequence[Reconfigured]) -> list[str]:
    notes = [
        f"{result.name}: the bench took {result.disturbance.action_s * 1e3:.0f} ms"
        for result in results
    ]
    if quiet.missing_frames:
        notes.append(
            f"{quiet.missing_frames} frames ({quiet.outage_s * 1e3:.3g} ms) were missing without "
            "a change: changes do not cause outages shorter than this"
        )
    notes += [
        f"after '{result.name}' no frames arrived until the end of the trial"
        for result in results
        if not result.disturbance.resumed
    ]
    return notes


def run(task: Task) -> MethodResult:
    """Measure the outages while ports or rules are changed."""
    churns = _churns(task)
    changes = [churn.change() for churn in churns] or task.switch_changes()
    throughput_pps, warm_up_trials = throughput(task)
    load = throughput_pps if task.trial.rate_pps is not None else RELIEF * throughput_pps
    result = reconfigure(task.measurer, changes, load_pps=load, trial_s=task.trial.duration_s)
    figures = [
        MethodFigure(name="longest outage", value=result.worst.disturbance.outage_s, unit="s"),
        MethodFigure(name="load", value=load, unit="pps"),
        *outage_figures("nothing done", result.quiet),
    ]
    for change in result.changes:
        figures += outage_figures(change.name, change.disturbance)
    for churn, change in zip(churns, result.changes, strict=False):
        figures += churn.figures(change.disturbance)
    notes = [f"longest outage: {result.worst.name}", *result.notes]
    return task.result("longest outage", figures, warm_up_trials=warm_up_trials, notes=notes)


def _churns(task: Task) -> list[Churn]:
    """Return the changes of the tables of the trial's functions."""
    trial = task.trial
    if not set(trial.function.names) & set(CHANGED):
        return []
    number = entries_to_change(trial.change_rate, trial.duration_s)
    return [Churn(change, number, trial.change_rate) for change in task.table_changes()]


def refusals(sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
    """Return why this switch cannot be changed while it runs; empty if it can."""
    if switch == WIRE:
        return
    names = dict.fromkeys(name for function in sweep.function for name in function.names)
    changed = [name for name in names if name in CHANGED]
    for name in changed:
        if name not in capabilities.changes_tables:
            reason = capabilities.cannot_change_tables.get(name, UNKNOWN_WAY)
            yield Refusal(
                f"{switch}: function {name}: {reason}", "leave it out of method reconfiguration"
            )
    if not changed and not capabilities.reconfigures:
        reason = capabilities.cannot_reconfigure or UNKNOWN_WAY
        yield Refusal(f"{switch}: {reason}", "leave it out of method reconfiguration")


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
