"""A simulated switch in the kernel: it works inside the system calls of its sender.

A load beyond its capacity is neither lost nor refused. The sender returns from its calls late and
gives up the frames that fell due meanwhile, as it does after it was descheduled. To the sender the
two look alike; the kernel's account of its waiting tells them apart, with its own error.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from switchmark.method.support.measurer import LoadPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """A switch in the kernel, and how its sender fares. Shares are of a trial's time."""

    capacity_pps: float
    trial_noise: float = 0.0  # standard deviation of the capacity from trial to trial
    descheduled_share: float = 0.0  # mean; exponentially distributed over trials
    untold_share: float = 0.0  # of the time descheduled, what the kernel does not account for


class BlockingSwitch:
    """A `Measurer` without hardware. The same `Blocking` and seed give the same trials."""

    def __init__(self, how: Blocking, seed: int = 0) -> None:
        self.how = how
        self._random = random.Random(seed)

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Run one trial."""
        how = self.how
        away = 0.0
        if how.descheduled_share:
            away = min(0.95, self._random.expovariate(1 / how.descheduled_share))
        noise = self._random.gauss(0, how.trial_noise) if how.trial_noise else 0.0
        capacity = how.capacity_pps * max(0.01, 1 + noise)
        is_open = math.isinf(load_pps)
        wanted = round((capacity if is_open else load_pps) * duration_s)
        offered = round(min(wanted / duration_s, capacity) * duration_s * (1 - away))
        told = away * (1 - how.untold_share)
        return LoadPoint(
            intended_pps=None if is_open else load_pps,
            offered_pps=offered / duration_s,
            forwarded_pps=offered / duration_s,
            offered_frames=offered,
            lost_frames=0,
            duration_s=duration_s,
            late_frames=0 if is_open else min(wanted - offered, math.ceil(wanted * told)),
            intended_frames=None if is_open else wanted,
            ring_full_share=0.0,
        )
