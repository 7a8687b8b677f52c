"""Reconfiguration: how long forwarding stops while ports or rules are added and removed.

Each change is made while a steady load passes, half of what the switch carries unless a rate
is set; the outage follows from the frames that are missing, and from the longest silence. The
load goes on until the change is done and for some time after it. A trial without any change
comes first: what is missing there, the change has not done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.method.disturbed import Disturbance
from switchmark.method.recovery import Disturber
from switchmark.switch.changes import Change

CHANGE_AT_SHARE = 1 / 3  # of the trial
LONGEST_CHANGE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigured:
    """One change and what it did to the traffic."""

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
    """Make one change after the other, each in a trial of its own, which lasts `trial_s` and as
    long as the change takes."""
    at_s = CHANGE_AT_SHARE * trial_s

    def during(action: Callable[[], None]) -> Disturbance:
        return switch.disturb(trial_s + LONGEST_CHANGE_S, load_pps, at_s, action, trial_s - at_s)

    quiet = during(_nothing)
    made = [Reconfigured(name=one.name, seen=during(one.apply)) for one in changes]
    return Reconfiguration(quiet=quiet, changes=tuple(made), notes=tuple(_notes(quiet, made)))


def _nothing() -> None:
    """The change of the trial that has none."""


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
