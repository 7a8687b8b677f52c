"""The results of a disturbed trial: a load that drops, or a switch that is changed under it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from switchmark.method.support.measurer import LoadPoint
from switchmark.method.support.outage import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDown:
    """An overload and the lower load right after it."""

    overload: LoadPoint
    after: LoadPoint
    gap_s: float  # between the last frame of the one and the first of the other
    last_loss: Span | None  # after the first frame of the lower load; None: none was lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A steady load, and the effect on it of something that was done to the switch."""

    point: LoadPoint
    missing_frames: int  # due and never arrived: lost, or refused by a port that was not there;
    # without those that the switch delivered and the receiver's own socket dropped
    silence: Span  # the longest one
    action_s: float  # how long the bench took to do it
    resumed: bool  # frames arrived at the end of the trial

    @property
    def outage_s(self) -> float:
        """The outage by the missing frames, in seconds, at the rate at which they were due."""
        return self.missing_frames / (self.point.intended_pps or 1.0)


class Disturber(Protocol):
    """A measurer that can also drop its load, or act on the switch, in mid-trial."""

    def step_down(
        self, first_s: float, first_pps: float, second_s: float, second_pps: float
    ) -> StepDown:
        """Offer an overload, then at once the lower load."""
        ...

    def disturb(
        self,
        duration_s: float,
        load_pps: float,
        at_s: float,
        action: Callable[[], Iterator[None] | None],
        tail_s: float,
    ) -> Disturbance:
        """Offer a steady load and call the action `at_s` after its begin; end `tail_s` after the
        action has returned, or after `duration_s`. If the action returns steps, they are made one
        by one while the traffic is read, and the action ends with the last one."""
        ...
