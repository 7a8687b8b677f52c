"""Checks the resolution of one-way times: the smallest delay that is distinguished from none.

The kernel waits for 1, 2 and 5 us by its clock, and for no time in the same program, so that only
the wait differs. The longest wait must be measured with an error of at most its half. The result of
the shorter waits is only a figure, since it depends on the machine and its load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from switchmark.certify.support.decision import median_interval, rule_for
from switchmark.certify.support.frame_faults import delay, inject
from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round, medians
from switchmark.certify.support.rig import Rig
from switchmark.record import Latency

DURATION_S, RATE_PPS = 0.25, 1_000
STEPS_US = (1, 2, 5)
LONGEST_US = STEPS_US[-1]
WITHIN_NS = 500 * LONGEST_US
RESOLVED = "distinguished from none, us"


def measure(rig: Rig) -> Round:
    """Measure with each wait, and without a wait."""
    none = times(rig, 0)
    added_ns = {us: times(rig, us).min_ns - none.min_ns for us in STEPS_US}
    lowest = sorted(low for low, _, _ in none.histogram.slots())
    grain_ns = min((b - a for a, b in pairwise(lowest)), default=0)
    return Round(
        {f"{LONGEST_US} us": added_ns[LONGEST_US] - 1e3 * LONGEST_US},
        figures={
            "grain, ns": grain_ns,
            **{_figure_name(us): added for us, added in added_ns.items()},
        },
    )


def times(rig: Rig, delay_us: int) -> Latency:
    """Return the one-way times of a trial with this delay in the bridge."""
    with inject(rig.bridge, delay(1000 * delay_us), 0):
        _, latency = rig.measurer.measure_latency(DURATION_S, RATE_PPS, 1)
    return latency


def levels(rounds: Sequence[Round]) -> Mapping[str, float]:
    """Return medians, and the smallest wait from which on all are proven to be above zero."""
    rule, resolved = rule_for(len(STEPS_US)), {}
    for us in reversed(STEPS_US):
        added_ns = [round_.figures[_figure_name(us)] for round_ in rounds]
        low, _ = median_interval(added_ns, rule.level_at(len(rounds), is_last=True))
        if low <= 0:
            break
        resolved = {RESOLVED: float(us)}
    return {**medians(rounds), **resolved}


def _figure_name(us: int) -> str:
    return f"ns seen of {us} us"


CHECK = ReferenceCheck(
    "resolution", "latency, resolution", "a BPF program that waits for 1, 2 and 5 us",
    RigKind.TIMES, "ns", WITHIN_NS, measure, levels=levels,
)  # fmt: skip
