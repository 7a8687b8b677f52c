"""The trim policy: which samples count, without warm-up and cool-down.

The record always has all raw samples, and the kept window from which a figure is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from switchmark.model.campaign import TrimPolicy
from switchmark.record import Trim


class Timed(Protocol):
    """A sample of the engine or of a foreign generator."""

    @property
    def t_ns(self) -> int:
        """The time at which the sample ended, in ns."""
        ...

    @property
    def duration_ns(self) -> int:
        """The length of the sample, in ns."""
        ...


T = TypeVar("T", bound=Timed)


def window_ns(policy: TrimPolicy, started_ns: int, ended_ns: int) -> tuple[int, int]:
    """Return the kept window in CLOCK_MONOTONIC ns.

    If a run is too short for the policy, its middle half is kept, and the record has the mark
    `short-window`.
    """
    start, end = _by_policy(policy, started_ns, ended_ns)
    if end - start < (ended_ns - started_ns) / 4:
        quarter = (ended_ns - started_ns) // 4
        return started_ns + quarter, ended_ns - quarter
    return start, end


def _by_policy(policy: TrimPolicy, started_ns: int, ended_ns: int) -> tuple[int, int]:
    return started_ns + round(policy.warm_up_s * 1e9), ended_ns - round(policy.cool_down_s * 1e9)


def describe(policy: TrimPolicy, started_ns: int, ended_ns: int, samples: Sequence[Timed]) -> Trim:
    """Return the record's note of the samples that were kept."""
    window = window_ns(policy, started_ns, ended_ns)
    kept_samples = sum(1 for _ in kept_intervals(samples, window))
    text = f"fixed: first {policy.warm_up_s:g} s and last {policy.cool_down_s:g} s left out"
    if window != _by_policy(policy, started_ns, ended_ns):
        text += f"; the run of {(ended_ns - started_ns) / 1e9:g} s was too short: middle half kept"
    return Trim(
        policy=text,
        kept_from_ns=window[0],
        kept_to_ns=window[1],
        samples_kept=kept_samples,
        samples_dropped=len(samples) - kept_samples,
    )


def kept_intervals(samples: Iterable[T], window: tuple[int, int]) -> Iterable[T]:
    """Return the samples that lie completely inside the window; partial samples are never
    scaled."""
    return (s for s in samples if s.t_ns - s.duration_ns >= window[0] and s.t_ns <= window[1])
