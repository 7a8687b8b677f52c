"""A simulated switch in the kernel: it works inside the system calls of its sender.

A load beyond its capacity is neither lost nor refused. The sender's calls return late, and it gives
up the frames that were due meanwhile, as after it was descheduled. Only the kernel's accounting of
waiting times, which has an error, distinguishes the two causes.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from switchmark.method.support.measurer import LoadPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """A switch in the kernel and its sender. Shares are shares of a trial's time."""

    capacity_pps: float
    trial_noise: float = 0.0  # standard deviation of the capacity from trial to trial
    descheduled_share: float = 0.0  # mean; exponentially distributed over trials
    unreported_share: float = 0.0  # share of the descheduled time that the kernel does not report


class BlockingSwitch:
    """A `Measurer` without hardware. The same `Blocking` and seed give the same trials."""

    def __init__(self, blocking: Blocking, seed: int = 0) -> None:
        self.blocking = blocking
        self._random = random.Random(seed)

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Run one trial."""
        blocking = self.blocking
        away = 0.0
        if blocking.descheduled_share:
            away = min(0.95, self._random.expovariate(1 / blocking.descheduled_share))
        noise = self._random.gauss(0, blocking.trial_noise) if blocking.trial_noise else 0.0
        capacity = blocking.capacity_pps * max(0.01, 1 + noise)
        is_open = math.isinf(load_pps)
        intended = round((capacity if is_open else load_pps) * duration_s)
        offered = round(min(intended / duration_s, capacity) * duration_s * (1 - away))
        reported = away * (1 - blocking.unreported_share)
        return LoadPoint(
            intended_pps=None if is_open else load_pps,
            offered_pps=offered / duration_s,
            forwarded_pps=offered / duration_s,
            offered_frames=offered,
            lost_frames=0,
            duration_s=duration_s,
            late_frames=0 if is_open else min(intended - offered, math.ceil(intended * reported)),
            intended_frames=None if is_open else intended,
            ring_full_share=0.0,
        )
