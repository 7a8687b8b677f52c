"""Remarks below the tables of a run: differences, oddities, marks, failures."""

from __future__ import annotations

from switchmark.cli.output import print_line
from switchmark.formatting import number
from switchmark.record.marks import MARKS
from switchmark.report import words
from switchmark.results.export import remarks
from switchmark.results.ranking import compare
from switchmark.results.rows import SummaryRow
from switchmark.results.store import Run
from switchmark.statistics.comparison import METHOD


def print_differences(rows: list[SummaryRow]) -> None:
    """Print how far the best at each point is ahead of the others, and how sure that is."""
    comparisons = [one for one in compare(rows) if one.others]
    if not comparisons:
        return
    print_line("Differences from the best at each point:")
    for one in comparisons:
        alike = [other.best for other in comparisons]
        alike = words.of_dimension(alike, one.best.trial.dimension)
        what = "throughput" if one.best.throughput else "median round trip"
        where = words.point(dict(one.point), words.varying_fields(alike))
        best = f"  {what}, {where}: {one.best.contender} ahead of "
        print_line(
            best
            + "; ".join(
                f"{row.contender} by {number(difference.ratio)}x ({difference.note})"
                for row, difference in one.others
            )
        )
    print_line(f"  {METHOD}\n")


def print_remarks(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    """Print what the means hide, a line each, with the row that it is about."""
    told = [f"  {row.notation}: {remark}" for row in rows for remark in remarks(row, everything)]
    if told:
        print_line("Outliers, bands, unsteady runs (nothing is left out of the figures above):")
        print_line("\n".join(told) + "\n")


def print_marks(rows: list[SummaryRow]) -> None:
    """Print the meaning of the trust marks in the tables."""
    names = dict.fromkeys(mark for row in rows for mark in row.marks)
    if names:
        print_line("Trust marks:")
    for name in names:
        print_line(f"  {name}: {MARKS[name].explanation if name in MARKS else 'see the record'}")


def print_failures(found: Run, rows: list[SummaryRow]) -> None:
    """Print why trials failed, and how many failures were run again."""
    failed = [row for row in rows if row.failures]
    if failed:
        print_line("\nFailed trials:")
    for row in failed:
        for message in row.failures:
            print_line(f"  {row.notation}: {message}")
    repaired = found.earlier_failures()
    if repaired:
        print_line(f"\n{len(repaired)} earlier failure(s) were run again; the records are kept.")
