"""What both forms of `switchmark compare` share: its exit codes and how it writes numbers."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.cli.output import note

EXIT_WORSE, EXIT_UNCLEAR = 4, 5


def exit_code(worse: bool, unclear: bool, unreadable: bool) -> int:
    """Worse goes before unreadable, unreadable before unclear."""
    if worse:
        return EXIT_WORSE
    if unreadable:
        return 1
    return EXIT_UNCLEAR if unclear else 0


def print_remarks(remarks: Sequence[str]) -> None:
    """Remarks go to standard error, so that tables and JSON stay clean."""
    for remark in remarks:
        note(f"switchmark: {remark}")


def ratio_text(value: float | None) -> str:
    """A ratio to three places; one that says no more than "anything" to its order of magnitude."""
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 1000 else f"{value:.0e}"


def p_text(value: float | None) -> str:
    """A p-value to three places."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"
