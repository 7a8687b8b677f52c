"""The bounds of one goal of a search, and their cause: the switch, noise, or something else.

The test for noise uses the trials alone. A load *shows bad* if at least `MIN_COUNT` and at least
`MIN_SHARE` of its trials of full length were bad; *shows good* is defined in the same way. A switch
with a sharp limit shows good below the limit and bad above it; only the limit itself can show both.
If a load that shows good lies a whole width or more above a load that shows bad, the transition is
wider than the required width, and noise decides the position of the bounds within it. For goals
with fewer than `REPEATED` trials of a load (RFC 2544, TST 009), one trial is enough to show good or
bad.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.errors import UsageError
from switchmark.method.support.goal import Goal
from switchmark.method.support.measurer import MOST_EXCUSED, RING_FULL_SHARE, LoadPoint
from switchmark.record import DecidedBy, GoalBounds

MIN_COUNT = 2
MIN_SHARE = 0.2
REPEATED = 5
WIDTH_SLACK = 0.9  # the search rounds widths down, so slightly narrower ranges also count
WIRE_SHARE = 0.9  # share of the baseline above which the sender may be the limit
_KEPT_AWAY = "an application or the switch was kept from its core for more than {:.0%} of the time"
_OWN_CORES = "stop the other programs, or give each its own core"
FAR_BELOW = 0.05  # gap between the loads of two goals, beyond their loss ratios, that has a note

STARVED_TRIALS = 3  # successive trials that end a search,
STARVED_SHARE = 0.5  # if an application or the switch lacked its core for more than this share

Stopped = Literal["done", "budget", "noise", "cores"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search: the bounds of each goal, and all trials in order."""

    bounds: tuple[GoalBounds, ...]
    trials: tuple[LoadPoint, ...]
    warm_up_trials: int  # number of trials at the begin of `trials` that are not judged
    spent_s: float
    stopped: Stopped
    repeated: int = 0  # trials that were measured again; not in `trials`

    def __getitem__(self, name: str) -> GoalBounds:
        for bounds in self.bounds:
            if bounds.goal == name:
                return bounds
        raise KeyError(name)


def check_range(min_pps: float, max_pps: float) -> None:
    """Raise `UsageError` for a range of loads that cannot be searched."""
    if not 0 < min_pps < max_pps < math.inf:
        raise UsageError(
            f"search from {min_pps:g} to {max_pps:g} pps: the minimum must be above 0 and below "
            "a finite maximum"
        )


def conclude(
    goal: Goal,
    lower_pps: float | None,
    upper_pps: float | None,
    conditional_throughput_pps: float | None,
    trials: Sequence[LoadPoint],
    limits_pps: tuple[float, float],
) -> GoalBounds:
    """Return the bounds of a goal with their cause."""
    mixed = mixed_range(goal, trials) or (None, None)
    bounds = GoalBounds(
        goal=goal.name,
        loss_ratio=goal.loss_ratio,
        width=goal.width,
        lower_pps=lower_pps,
        upper_pps=upper_pps,
        conditional_throughput_pps=conditional_throughput_pps,
        decided_by="switch",
        mixed_from_pps=mixed[0],
        mixed_to_pps=mixed[1],
        notes=[],
    )
    decided_by, notes = _decided_by(goal, bounds, trials, limits_pps)
    notes += _stray_notes(goal, lower_pps, trials)
    # Trials without their cores show nothing about the switch, so they prove no upper bound.
    proven = {"upper_pps": None} if decided_by == "cores" else {}
    return bounds.model_copy(update={**proven, "decided_by": decided_by, "notes": notes})


def is_starved(trials: Sequence[LoadPoint]) -> bool:
    """Return True if the last trials lacked their cores for most of the time. Lower loads do not
    help then: a sender that is away from its core gives up the same share of every load."""
    last = trials[-STARVED_TRIALS:]
    return len(last) == STARVED_TRIALS and all(t.kept_away_share > STARVED_SHARE for t in last)


def with_gap_notes(found: Sequence[GoalBounds]) -> tuple[GoalBounds, ...]:
    """Add a note to a goal far below a more tolerant goal.

    The loss of an overload is proportional to its excess, so NDR and PDR lie about as far apart as
    their loss ratios. A wider gap means rare losses at loads well within the capacity."""
    noted = []
    for bounds in found:
        above = [
            other
            for other in found
            if other.loss_ratio > bounds.loss_ratio
            and other.lower_pps is not None
            and bounds.upper_pps is not None
            and other.lower_pps * (1 - other.loss_ratio - FAR_BELOW) > bounds.upper_pps
        ]
        notes = [
            f"lies {1 - (bounds.upper_pps or 0.0) / (other.lower_pps or 1.0):.0%} below "
            f"{other.goal}: these losses are rare, not overload; measure a soak for details"
            for other in above
        ]
        noted.append(bounds.model_copy(update={"notes": bounds.notes + notes}))
    return tuple(noted)


def mixed_range(goal: Goal, trials: Sequence[LoadPoint]) -> tuple[float, float] | None:
    """Return the loads between which trials went both ways; None if they are closer than a
    width."""
    repeated = goal.duration_sum_s >= REPEATED * goal.final_trial_s
    least = MIN_COUNT if repeated else 1

    def shows(count: int, total: int) -> bool:
        return count >= least and count >= MIN_SHARE * total

    counts = outcomes(goal, trials)
    lows = [load for load, (good, bad) in counts.items() if shows(bad, good + bad)]
    highs = [load for load, (good, bad) in counts.items() if shows(good, good + bad)]
    if not lows or not highs:
        return None
    lowest, highest = min(lows), max(highs)
    return (lowest, highest) if highest - lowest >= WIDTH_SLACK * goal.width * highest else None


def outcomes(goal: Goal, trials: Sequence[LoadPoint]) -> dict[float, tuple[int, int]]:
    """Return the numbers of good and bad trials of the goal's full length, by intended load."""
    counts: dict[float, tuple[int, int]] = {}
    for trial in trials:
        if trial.intended_pps is None or trial.duration_s < goal.final_trial_s:
            continue
        good, bad = counts.get(trial.intended_pps, (0, 0))
        is_bad = trial.search_loss_ratio > goal.loss_ratio
        counts[trial.intended_pps] = (good + (not is_bad), bad + is_bad)
    return counts


def _decided_by(
    goal: Goal, bounds: GoalBounds, trials: Sequence[LoadPoint], limits_pps: tuple[float, float]
) -> tuple[DecidedBy, list[str]]:
    if bounds.mixed_from_pps is not None:
        return "noise", [
            f"trials went both ways from {bounds.mixed_from_pps:.0f} to "
            f"{bounds.mixed_to_pps:.0f} pps, more than the width of {goal.width:.2%}: noise "
            "decides where the bounds fall; quiet the machine, lengthen trials or widen the goal",
            *_noise_causes(goal, bounds.mixed_to_pps or 0.0, trials),
        ]
    if bounds.upper_pps is not None and bounds.upper_pps <= limits_pps[0]:
        decided_by, notes = _at_upper(goal, bounds, trials)
        if decided_by in ("sender", "cores"):
            return decided_by, notes
        return "range", [f"even the lowest load of {limits_pps[0]:.0f} pps was too much"]
    if bounds.lower_pps is not None and bounds.lower_pps >= limits_pps[1]:
        return "range", [
            f"the highest load of {limits_pps[1]:.0f} pps was carried: raise the maximum"
        ]
    return _at_upper(goal, bounds, trials) if bounds.reached else _ended_early(trials)


def _ended_early(trials: Sequence[LoadPoint]) -> tuple[DecidedBy, list[str]]:
    if not is_starved(trials):
        return "budget", ["the search ended before the bounds were within the required width"]
    loads = [trial.intended_pps or 0.0 for trial in trials[-STARVED_TRIALS:]]
    return "cores", [
        f"in the last {STARVED_TRIALS} trials, at {min(loads):.0f} to {max(loads):.0f} pps, "
        f"{_KEPT_AWAY.format(STARVED_SHARE)}, so no load was offered: {_OWN_CORES}"
    ]


def _noise_causes(goal: Goal, highest_pps: float, trials: Sequence[LoadPoint]) -> list[str]:
    """Return the common cause of most bad trials at loads that other trials carried; empty if there
    is none. A full ring shows that its reader paused."""
    judged = [
        trial
        for trial in trials
        if trial.intended_pps is not None
        and trial.duration_s >= goal.final_trial_s
        and trial.intended_pps <= highest_pps
    ]
    bad = [trial for trial in judged if trial.search_loss_ratio > goal.loss_ratio]
    good = [trial for trial in judged if trial.search_loss_ratio <= goal.loss_ratio]
    paused = sum(map(_is_ring_full, bad))
    if bad and paused * 2 > len(bad) and sum(map(_is_ring_full, good)) * 2 < len(good):
        return [
            f"in {paused} of {len(bad)} bad trials the sender's ring was full for a while, at "
            "loads that other trials carried with room in it: the switch paused, and frames were "
            "lost in the burst after the pause. Give the switch and each application cores that no "
            "other program uses. If that is not possible, deepen the rings (ring: 1024), or use a "
            "goal that tolerates such pauses (PDR)"
        ]
    given_up = sum(not trial.load_judged and not _is_ring_full(trial) for trial in bad)
    if bad and given_up * 2 > len(bad):
        return [
            f"in {given_up} of {len(bad)} bad trials the sender gave up frames although its ring "
            "had room: it did not run on its core. Give each application its own core"
        ]
    return []


def _is_kept_away(trial: LoadPoint) -> bool:
    return trial.kept_away_share > MOST_EXCUSED


def _is_ring_full(trial: LoadPoint) -> bool:
    return (trial.ring_full_share or 0.0) >= RING_FULL_SHARE


def _at_upper(
    goal: Goal, bounds: GoalBounds, trials: Sequence[LoadPoint]
) -> tuple[DecidedBy, list[str]]:
    """Return the reason for the upper bound: loss, a load that was never offered, or cores that
    other programs used."""
    bad = [
        trial
        for trial in trials
        if trial.intended_pps == bounds.upper_pps and trial.search_loss_ratio > goal.loss_ratio
    ]
    kept_away = sum(map(_is_kept_away, bad))
    if 2 * kept_away > len(bad):
        return "cores", [
            f"in {kept_away} of {len(bad)} trials at {bounds.upper_pps:.0f} pps "
            f"{_KEPT_AWAY.format(MOST_EXCUSED)}, so they prove no upper bound: {_OWN_CORES}"
        ]
    unoffered = [trial for trial in bad if trial.uncarried_ratio <= goal.loss_ratio]
    if len(unoffered) * 2 <= len(bad):
        return "switch", []
    pushed_back = [trial for trial in unoffered if _is_ring_full(trial)]
    if len(pushed_back) * 2 > len(unoffered):
        return "switch", ["at the upper bound, the port refused frames instead of losing them"]
    return "sender", [
        "the upper bound's load was never offered although the port accepted every frame: this is "
        "the sender's limit, and the switch may carry more"
    ]


def _stray_notes(goal: Goal, lower_pps: float | None, trials: Sequence[LoadPoint]) -> list[str]:
    """Return a note on bad trials well below the lower bound, which the load does not explain."""
    if lower_pps is None:
        return []
    below = [
        counts
        for load, counts in outcomes(goal, trials).items()
        if load < lower_pps * (1 - goal.width)
    ]
    strays, total = sum(bad for _, bad in below), sum(good + bad for good, bad in below)
    if not strays:
        return []
    return [
        f"{strays} of {total} full-length trials more than a width below the lower bound were "
        "bad: the load does not cause these losses"
    ]


def by_switch_in_kernel(
    found: GoalBounds, wire_pps: float | None, *, in_kernel: bool
) -> GoalBounds:
    """Attribute bounds to the switch instead of the sender if the switch works in the kernel.

    Such a switch works inside the sender's system calls, so a load beyond its capacity is neither
    lost nor refused, but never offered. If the baseline of the same sender (`wire_pps`) is clearly
    higher, the switch was the limit."""
    if found.decided_by != "sender" or not in_kernel or not wire_pps or found.upper_pps is None:
        return found
    if found.upper_pps > WIRE_SHARE * wire_pps:
        return found
    note = (
        "the upper bound's load was never offered: the switch works inside the sender's system "
        f"calls, and without it the same sender carries {wire_pps:.0f} pps"
    )
    return found.model_copy(update={"decided_by": "switch", "notes": [note]})
