"""The resolution of one-way times: the smallest step of delay that is told from none.

The kernel waits for 1, 2 and 5 us by its own clock, and for no time in the same program, so that
only the wait differs. The longest step must be found to a half of itself. The smaller ones are a
figure and no claim: which of them is told from none depends on the machine and on what else it
does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from switchmark.certify.support.decision import median_interval, rule_for
from switchmark.certify.support.frame_faults import delayed, struck
from switchmark.certify.support.stand import Rig
from switchmark.certify.support.truth import Stand, Truth, Turn, medians
from switchmark.record import Latency

DURATION_S, RATE_PPS = 0.25, 1_000
STEPS_US = (1, 2, 5)
LONGEST_US = STEPS_US[-1]
WITHIN_NS = 500 * LONGEST_US


def turn(rig: Rig) -> Turn:
    """Measure with each of the waits, and with none."""
    none = times(rig, 0)
    added_ns = {us: times(rig, us).min_ns - none.min_ns for us in STEPS_US}
    lowest = sorted(low for low, _, _ in none.histogram.slots())
    grain_ns = min((b - a for a, b in pairwise(lowest)), default=0)
    return Turn(
        {f"{LONGEST_US} us": added_ns[LONGEST_US] - 1e3 * LONGEST_US},
        figures={
            "grain, ns": grain_ns,
            **{_seen(us): found for us, found in added_ns.items()},
        },
    )


def times(rig: Rig, delay_us: int) -> Latency:
    """The one-way times of a trial in which every frame waits for so long in the bridge."""
    with struck(rig.bridge, delayed(1000 * delay_us), 0):
        _, found = rig.measurer.measure_latency(DURATION_S, RATE_PPS, 1)
    return found


def levels(turns: Sequence[Turn]) -> Mapping[str, float]:
    """Medians, and the smallest step from which on all are proven to be longer than none."""
    rule, told_apart = rule_for(len(STEPS_US)), {}
    for us in reversed(STEPS_US):
        seen_ns = [one.figures[_seen(us)] for one in turns]
        low, _ = median_interval(seen_ns, rule.level_at(len(turns), is_last=True))
        if low <= 0:
            break
        told_apart = {"told from none, us": float(us)}
    return {**medians(turns), **told_apart}


def _seen(us: int) -> str:
    return f"ns seen of {us} us"


TRUTH = Truth(
    "resolution", "latency, resolution", "a BPF program that waits for 1, 2 and 5 us", Stand.TIMES,
    "ns", WITHIN_NS, turn, levels=levels,
)  # fmt: skip
