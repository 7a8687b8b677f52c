"""Verdicts on expectations in words: one sentence each, for the terminal and for CI."""

from __future__ import annotations

from switchmark.language.duration import format_duration
from switchmark.model.expectation import ExpectedFigure
from switchmark.report import words
from switchmark.results.expectations import ExpectationOutcome, Judgement
from switchmark.statistics.means import Estimate


def sentence(one: Judgement) -> str:
    """One sentence: the figure, what was expected of it, and the verdict."""
    where = f" on {one.testbed}" if one.testbed else ""
    found = f"{_figure(one)}{where}, expected {one.expectation.text}"
    if one.outcome is ExpectationOutcome.UNUSABLE:
        return f"{one.expectation.figure}: no usable figure{where}: {one.reason}"
    if one.outcome is ExpectationOutcome.UNDECIDED:
        return f"{one.expectation.figure}: {found}: undecided: {one.reason}{_time(one)}"
    return f"{one.expectation.figure}: {found}: {one.outcome}"


def _time(one: Judgement) -> str:
    return "" if one.needs_s is None else f", about {format_duration(one.needs_s)}"


def _figure(one: Judgement) -> str:
    if one.figure is None:
        return "no figure"
    interval = ""
    if one.figure.low is not None and one.figure.high is not None:
        low, high = (_amount(one, value) for value in (one.figure.low, one.figure.high))
        interval = f" ({low} to {high})"
    return f"{_amount(one, one.figure.mean)}{interval}{_count(one.figure)}"


def _count(figure: Estimate) -> str:
    return f" in {figure.count} repetition{'s' if figure.count != 1 else ''}"


def _amount(one: Judgement, value: float) -> str:
    match one.expectation.figure:
        case ExpectedFigure.THROUGHPUT:
            return words.with_prefix(value, "pps")
        case ExpectedFigure.LOSS | ExpectedFigure.SLOWER_THAN_BASELINE:
            return words.percent(value)
        case ExpectedFigure.RTT_P50 | ExpectedFigure.RTT_P99:
            return words.time_ns(value)
