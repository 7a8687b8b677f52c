"""Verdicts on expectations in words: one sentence each, for the terminal and for CI."""

from __future__ import annotations

from switchmark.formatting import amount, format_duration
from switchmark.model.expectation import ExpectedFigure
from switchmark.results.expectations import ExpectationOutcome, Judgement

_UNITS = {
    ExpectedFigure.THROUGHPUT: "pps",
    ExpectedFigure.RTT_P50: "ns",
    ExpectedFigure.RTT_P99: "ns",
}


def sentence(one: Judgement) -> str:
    """One sentence: the figure, what was expected of it, and the verdict."""
    where = f" on {one.testbed}" if one.testbed else ""
    found = f"{_figure(one)}{where}, expected {one.expectation.text}"
    if one.outcome is ExpectationOutcome.UNUSABLE:
        return f"{one.expectation.figure}: no usable figure{where}: {one.reason}"
    if one.outcome is ExpectationOutcome.UNDECIDED:
        time = "" if one.needs_s is None else f", about {format_duration(one.needs_s)}"
        return f"{one.expectation.figure}: {found}: undecided: {one.reason}{time}"
    return f"{one.expectation.figure}: {found}: {one.outcome}"


def _figure(one: Judgement) -> str:
    if one.figure is None:
        return "no figure"
    interval = ""
    if one.figure.low is not None and one.figure.high is not None:
        low, high = (_amount(one, value) for value in (one.figure.low, one.figure.high))
        interval = f" ({low} to {high})"
    count = f"{one.figure.count} repetition{'s' if one.figure.count != 1 else ''}"
    mean = "mean " if one.figure.count > 1 else ""
    return f"{mean}{_amount(one, one.figure.mean)}{interval} in {count}"


def _amount(one: Judgement, value: float) -> str:
    return amount(value, _UNITS.get(one.expectation.figure, "ratio"))
