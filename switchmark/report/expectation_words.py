"""Sentences for verdicts on expectations, for the terminal and for CI."""

from __future__ import annotations

from switchmark.formatting import amount, format_duration
from switchmark.model.expectation import ExpectedFigure
from switchmark.results.expectations import ExpectationOutcome, Judgement

_UNITS = {
    ExpectedFigure.THROUGHPUT: "pps",
    ExpectedFigure.RTT_P50: "ns",
    ExpectedFigure.RTT_P99: "ns",
}


def sentence(judgement: Judgement) -> str:
    """Return one sentence: the figure, the expectation, and the verdict."""
    where = f" on {judgement.testbed}" if judgement.testbed else ""
    result = f"{_figure(judgement)}{where}, expected {judgement.expectation.text}"
    if judgement.outcome is ExpectationOutcome.UNUSABLE:
        return f"{judgement.expectation.figure}: no usable figure{where}: {judgement.reason}"
    if judgement.outcome is ExpectationOutcome.UNDECIDED:
        time = "" if judgement.needs_s is None else f", about {format_duration(judgement.needs_s)}"
        return f"{judgement.expectation.figure}: {result}: undecided: {judgement.reason}{time}"
    return f"{judgement.expectation.figure}: {result}: {judgement.outcome}"


def _figure(judgement: Judgement) -> str:
    if judgement.figure is None:
        return "no figure"
    interval = ""
    if judgement.figure.low is not None and judgement.figure.high is not None:
        low, high = (
            _amount(judgement, value) for value in (judgement.figure.low, judgement.figure.high)
        )
        interval = f" ({low} to {high})"
    count = f"{judgement.figure.count} repetition{'s' if judgement.figure.count != 1 else ''}"
    mean = "mean " if judgement.figure.count > 1 else ""
    return f"{mean}{_amount(judgement, judgement.figure.mean)}{interval} in {count}"


def _amount(judgement: Judgement, value: float) -> str:
    return amount(value, _UNITS.get(judgement.expectation.figure, "ratio"))
