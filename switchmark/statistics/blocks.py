"""One row of a campaign in blocks: a contender's figure in one block, and the machine around it.

A block measures every contender once, briefly, in random order. The deployment in a block is the
unit of all comparisons; its samples only tell whether the machine kept its state.
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
    cores: str = ""  # between which the line was read; lines of other cores tell other states
    samples: tuple[float, ...] = ()  # of the figure within the trial, at equal distances
