"""Types for other hosts that do not load the SSH library."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.errors import TrialFailed


class HostLost(TrialFailed):
    """The connection to a host ended unexpectedly."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The lead of the other host's CLOCK_MONOTONIC over this host's.

    The true value lies within `uncertainty_ns` of it, even if one direction of the path is slower
    than the other."""

    ahead_ns: int
    uncertainty_ns: int
