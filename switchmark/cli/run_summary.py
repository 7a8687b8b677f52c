"""The first lines about a run: at most 25 lines of 100 columns, in the words of
report/summary_words.py, then where the rest is.

`show --full` prints every table.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.cli.answer_lines import answer_lines, fit
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
    """A line for each row."""
    widest = max((len(name) for name, _ in told.rows), default=0)
    lines = [f"  {name:<{widest}}  {text}" for name, text in told.rows]
    if len(lines) > told.room:
        lines = [*lines[: told.room - 1], f"  ... and {len(lines) - told.room + 1} more rows"]
    return lines


def _elsewhere(found: Run) -> list[str]:
    report = found.directory / "report.html"
    where = str(report) if report.exists() else "switchmark report"
    return [f"All figures: switchmark show --full {found.directory}", f"Report: {where}"]
