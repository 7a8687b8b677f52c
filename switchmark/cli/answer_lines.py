"""The answer of a run as lines for the terminal: the words of report/answer_words.py."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from switchmark.report.answer_words import PointWords
from switchmark.report.summary_words import Summary

WIDTH = 100


def answer_lines(told: Summary) -> list[str]:
    """The answers in as many lines as there is room for, each of at most `WIDTH` columns; what does
    not fit is in `show --full` and in the report."""
    lines = [told.heading, *(line for one in told.points for line in _point(one))]
    for sentence in told.sentences:
        lines += textwrap.wrap(f"  {sentence}", WIDTH, subsequent_indent="      ")[:3]
    if len(lines) <= told.room:
        return lines
    return [*lines[: told.room - 1], f"  ... and {len(told.sentences)} points in all"]


def _point(found: PointWords) -> Iterator[str]:
    """A heading and a line for each contender, best first."""
    yield f"  {found.title}"
    widest = max(len(one.contender) for one in found.lines)
    for one in found.lines:
        text = f"    {one.place}. {one.contender:<{widest}}  {one.amount:>9}"
        yield fit(f"{text}  {one.lead}" if one.lead else text)


def fit(text: str) -> str:
    """The line, cut where it is wider than `WIDTH`."""
    return text if len(text) <= WIDTH else text[: WIDTH - 4] + " ..."
