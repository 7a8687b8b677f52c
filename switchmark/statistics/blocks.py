"""One row of a campaign in blocks: a contender's figure in one block, and the machine around it.

A block measures every contender once, briefly, in random order. The unit of all comparisons is the
deployment in a block. The samples of a trial only show whether the machine kept its state.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTrial:
    """One contender's trial in one block."""

    block: int
    contender: str
    start_s: float  # from the campaign's start
    figure: float | None  # rate, delay ...: above 0; None: the trial failed or is invalid
    line_before_ns: float | None = None  # time of a cache line between the cores used
    line_after_ns: float | None = None
    cores: str = ""  # cores of the reading; lines between other cores show other states
    samples: tuple[float, ...] = ()  # the figure within the trial, at equal intervals
