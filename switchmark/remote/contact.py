"""What must be known about another host before anything that speaks SSH is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.errors import TrialFailed


class HostLost(TrialFailed):
    """The connection to a host has ended before its time."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """How far the other host's CLOCK_MONOTONIC is ahead of ours: the truth lies within
    `uncertainty_ns` either way, however the way there and back differ."""

    ahead_ns: int
    uncertainty_ns: int
