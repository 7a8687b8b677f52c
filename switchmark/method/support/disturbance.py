"""The results of a disturbed trial: its load drops, or its switch is changed under the load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from switchmark.method.support.measurer import LoadPoint
from switchmark.method.support.outage import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDown:
    """An overload and the lower load immediately after it."""

    overload: LoadPoint
    after: LoadPoint
    gap_s: float  # between the last frame of the overload and the first of the lower load
    last_loss: Span | None  # after the first frame of the lower load; None: none was lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A steady load, and the effect of an action on it."""

    point: LoadPoint
    # Frames that were due and did not arrive: lost, or refused by a port that did not exist then.
    # Frames that the receiver's own socket dropped are not included.
    missing_frames: int
    silence: Span  # the longest silence
    action_s: float  # duration of the action
    resumed: bool  # frames arrived at the end of the trial

    @property
    def outage_s(self) -> float:
        """The missing frames divided by the rate at which they were due, in seconds."""
        return self.missing_frames / (self.point.intended_pps or 1.0)


class Disturber(Protocol):
    """A measurer that can also drop its load, or act on the switch, during a trial."""

    def step_down(
        self, first_s: float, first_pps: float, second_s: float, second_pps: float
    ) -> StepDown:
        """Offer an overload, and immediately after it the lower load."""
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
