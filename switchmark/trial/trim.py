"""Which samples count: the stated policy that leaves out warm-up and cool-down.

The record always keeps the raw samples; this says which of them a figure is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from switchmark.model.campaign import TrimPolicy
from switchmark.record import Trim


class Timed(Protocol):
    """A sample of our engine or of a foreign instrument."""

    @property
    def t_ns(self) -> int:
        """When the sample ended, in ns."""
        ...

    @property
    def duration_ns(self) -> int:
        """How long the sample was, in ns."""
        ...


T = TypeVar("T", bound=Timed)


def window_ns(policy: TrimPolicy, started_ns: int, ended_ns: int) -> tuple[int, int]:
    """The kept window in CLOCK_MONOTONIC ns.

    A run too short for the policy keeps its middle half: some figure, clearly described, is
    better than none; the record's `short-window` mark says so.
    """
    start, end = _as_asked(policy, started_ns, ended_ns)
    if end - start < (ended_ns - started_ns) / 4:
        quarter = (ended_ns - started_ns) // 4
        return started_ns + quarter, ended_ns - quarter
    return start, end


def _as_asked(policy: TrimPolicy, started_ns: int, ended_ns: int) -> tuple[int, int]:
    return started_ns + round(policy.warm_up_s * 1e9), ended_ns - round(policy.cool_down_s * 1e9)


def describe(policy: TrimPolicy, started_ns: int, ended_ns: int, samples: Sequence[Timed]) -> Trim:
    """The record's account of the samples that were kept."""
    window = window_ns(policy, started_ns, ended_ns)
    kept = sum(1 for _ in kept_intervals(samples, window))
    text = f"fixed: first {policy.warm_up_s:g} s and last {policy.cool_down_s:g} s left out"
    if window != _as_asked(policy, started_ns, ended_ns):
        text += f"; the run of {(ended_ns - started_ns) / 1e9:g} s was too short: middle half kept"
    return Trim(
        policy=text,
        kept_from_ns=window[0],
        kept_to_ns=window[1],
        samples_kept=kept,
        samples_dropped=len(samples) - kept,
    )


def kept_intervals(samples: Iterable[T], window: tuple[int, int]) -> Iterable[T]:
    """Samples that lie wholly inside the window: no partial sample is ever scaled."""
    return (s for s in samples if s.t_ns - s.duration_ns >= window[0] and s.t_ns <= window[1])
