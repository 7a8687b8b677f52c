"""A simulated switch that now and then loses its core, as its applications do.

The switch pushes back what it does not take at once, as rings do. A sender that comes back makes up
for what fell due, up to a bound, and gives up the rest; a receiver that is away loses what its ring
does not hold; while the switch is away nothing is taken. The truth is set, so that a search can be
held to it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from switchmark.method.support.measurer import LoadPoint

Who = Literal["sender", "receiver", "switch", "nobody"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """How often, and for how long, an application or the switch is kept from its core."""

    per_s: float  # Poisson
    shortest_s: float = 0.004  # a tick of the kernel
    longest_s: float = 0.03
    whose: tuple[Who, ...] = ("sender", "receiver", "switch")  # by turns of chance
    catch_up_s: float = 0.001  # what a sender makes up for
    ring_frames: int = 256  # of the receiver


class StallingSwitch:
    """A `Measurer` without hardware. The same stalls and seed give the same sequence of trials."""

    def __init__(self, capacity_pps: float, stalls: Stalls, seed: int = 0) -> None:
        self.capacity_pps = capacity_pps
        self._stalls = stalls
        self._random = random.Random(seed)

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Run one trial."""
        how = self._stalls
        asked_pps = 2 * self.capacity_pps if math.isinf(load_pps) else load_pps
        bound = asked_pps * how.catch_up_s
        offered = waiting = late = refused = lost = stalled_s = 0.0
        for who, length_s in self._stretches(duration_s):
            waiting += asked_pps * length_s
            taken = 0.0
            if who in ("nobody", "receiver"):
                taken = min(waiting, self.capacity_pps * length_s)
            waiting -= taken
            offered += taken
            given_up = max(0.0, waiting - bound)
            waiting -= given_up
            if who == "sender":
                late += given_up
            else:
                refused += given_up
            if who == "receiver":
                lost += max(0.0, taken - how.ring_frames)
            stalled_s += length_s if who == "switch" else 0.0
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

    def _stretches(self, duration_s: float) -> Iterator[tuple[Who, float]]:
        """Who is away, and for how long, from the trial's begin to its end."""
        how, at_s = self._stalls, 0.0
        while at_s < duration_s:
            calm_s = min(self._random.expovariate(how.per_s), duration_s - at_s)
            yield "nobody", calm_s
            at_s += calm_s
            length_s = min(self._random.uniform(how.shortest_s, how.longest_s), duration_s - at_s)
            yield self._random.choice(how.whose), length_s
            at_s += length_s
