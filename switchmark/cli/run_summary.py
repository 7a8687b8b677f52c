"""The first lines about a run: at most 25 lines of 100 columns, in the words of
report/summary_words.py, then where the rest is.

`show --full` prints every table.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from switchmark.cli.answer_lines import WIDTH, answer_lines, fit
from switchmark.cli.output import print_line
from switchmark.report.summary_words import Summary, answers_of, summarise_in_words
from switchmark.results.answer import PointAnswer
from switchmark.results.rows import SummaryRow
from switchmark.results.store import Run


def print_summary(found: Run, rows: Sequence[SummaryRow], everything: Sequence[SummaryRow]) -> None:
    """Print the summary of a run's chosen rows."""
    answers = answers_of(found, rows, everything)
    print_line("\n".join(summary_lines(found, rows, everything, answers)))


def summary_lines(
    found: Run,
    rows: Sequence[SummaryRow],
    everything: Sequence[SummaryRow],
    answers: Sequence[PointAnswer],
) -> list[str]:
    """The lines, `MOST_LINES` at most."""
    told = summarise_in_words(found, rows, everything, answers)
    if told.nothing:
        return [told.head, told.nothing]
    body = answer_lines(told) if told.heading else _figures(told)
    lines = (told.head, *body, *told.warned, f"Instruments: {told.certified}")
    return [*(fit(line) for line in lines), *_elsewhere(found)]


def _figures(told: Summary) -> list[str]:
    """Each row in a line, or two where it is wider: a figure is never cut."""
    names = max((len(name) for name, _ in told.rows), default=0)
    figures = max((len(text) for _, text in told.rows), default=0)
    column = max(0, min(names, WIDTH - len("    ") - figures))
    wrapper = textwrap.TextWrapper(WIDTH, subsequent_indent="      ", break_on_hyphens=False)
    lines: list[str] = []
    if told.estimators:
        lines = [told.estimators]
    for number, (name, text) in enumerate(told.rows):
        row = wrapper.wrap(f"  {name:<{column}}  {text}")
        more = len(told.rows) - number
        if len(lines) - bool(told.estimators) + len(row) + (more > 1) > told.room:
            return [*lines, f"  ... and {more} more rows"]
        lines += row
    return lines


def _elsewhere(found: Run) -> list[str]:
    report = found.directory / "report.html"
    where = str(report) if report.exists() else "switchmark report"
    return [f"All figures: switchmark show --full {found.directory}", f"Report: {where}"]
