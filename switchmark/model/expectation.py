"""The expected figures of a campaign, such as `throughput: ">= 5M"` (results/expectations.py)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from switchmark.model.choices import Dimension
from switchmark.model.trial import Frozen


class ExpectedFigure(StrEnum):
    """The figures that a campaign may have an expectation about."""

    THROUGHPUT = "throughput"  # frames/s that arrived; of a search, its headline
    LOSS = "loss"  # share of the frames that were sent
    RTT_P50 = "rtt_p50"  # ns, median round trip
    RTT_P99 = "rtt_p99"  # ns
    SLOWER_THAN_BASELINE = "slower_than_baseline"  # a share of the baseline's load, or of its RTT


class Expectation(Frozen):
    """A bound on one figure, which holds for every trial that has this figure."""

    figure: ExpectedFigure
    relation: Literal[">=", "<="]
    bound: float  # frames/s, a share, or ns
    text: str  # as the user wrote it

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions whose trials have the figure."""
        match self.figure:
            case ExpectedFigure.THROUGHPUT | ExpectedFigure.LOSS:
                return (Dimension.THROUGHPUT,)
            case ExpectedFigure.RTT_P50 | ExpectedFigure.RTT_P99:
                return (Dimension.LATENCY,)
            case ExpectedFigure.SLOWER_THAN_BASELINE:
                return (Dimension.THROUGHPUT, Dimension.LATENCY)

    def __str__(self) -> str:
        return f"{self.figure} {self.text}"
