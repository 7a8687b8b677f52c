"""A simulated switch that sometimes loses its core, as its applications do.

The switch refuses frames that it cannot accept immediately, as rings do. After a pause, a sender
catches up with due frames up to a limit, and gives up the rest. A receiver without a core loses the
frames that do not fit into its ring. A switch without a core accepts no frame. The true capacity is
set, so that the result of a search can be checked.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from switchmark.method.support.measurer import LoadPoint

Part = Literal["sender", "receiver", "switch", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """The frequency and the length of times in which an application or the switch has no core."""

    per_s: float  # rate of a Poisson process
    shortest_s: float = 0.004  # a tick of the kernel
    longest_s: float = 0.03
    parts: tuple[Part, ...] = ("sender", "receiver", "switch")  # one of them stalls, at random
    catch_up_s: float = 0.001  # longest pause after which a sender offers all due frames
    ring_frames: int = 256  # size of the receiver's ring


class StallingSwitch:
    """A `Measurer` without hardware. The same stalls and seed give the same sequence of trials."""

    def __init__(self, capacity_pps: float, stalls: Stalls, seed: int = 0) -> None:
        self.capacity_pps = capacity_pps
        self._stalls = stalls
        self._random = random.Random(seed)

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Run one trial."""
        stalls = self._stalls
        sent_pps = 2 * self.capacity_pps if math.isinf(load_pps) else load_pps
        bound = sent_pps * stalls.catch_up_s
        offered = waiting = late = refused = lost = stalled_s = 0.0
        for stalled, length_s in self._stretches(duration_s):
            waiting += sent_pps * length_s
            taken = 0.0
            if stalled in ("none", "receiver"):
                taken = min(waiting, self.capacity_pps * length_s)
            waiting -= taken
            offered += taken
            given_up = max(0.0, waiting - bound)
            waiting -= given_up
            if stalled == "sender":
                late += given_up
            else:
                refused += given_up
            if stalled == "receiver":
                lost += max(0.0, taken - stalls.ring_frames)
            stalled_s += length_s if stalled == "switch" else 0.0
        offered_frames = round(offered + waiting)
        is_open = math.isinf(load_pps)
        return LoadPoint(
            intended_pps=None if is_open else load_pps,
            offered_pps=offered_frames / duration_s,
            forwarded_pps=(offered - lost) / duration_s,
            offered_frames=offered_frames,
            lost_frames=0,
            duration_s=duration_s,
            lost_away=round(lost),
            late_frames=0 if is_open else round(late),
            stalled_s=stalled_s,
            intended_frames=None if is_open else round(load_pps * duration_s),
            ring_full_share=0.5 if refused else 0.0,
        )

    def _stretches(self, duration_s: float) -> Iterator[tuple[Part, float]]:
        """Yield the stalled part and the duration, from the begin of the trial to its end."""
        stalls, at_s = self._stalls, 0.0
        while at_s < duration_s:
            calm_s = min(self._random.expovariate(stalls.per_s), duration_s - at_s)
            yield "none", calm_s
            at_s += calm_s
            drawn_s = self._random.uniform(stalls.shortest_s, stalls.longest_s)
            length_s = min(drawn_s, duration_s - at_s)
            yield self._random.choice(stalls.parts), length_s
            at_s += length_s
