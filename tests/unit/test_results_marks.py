"""Trust marks: one table, told the same way everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.method import judge
from switchmark.results.marks import MARKS, explain, markdown_table, marks_are_valid

DOCS = Path(__file__).parents[2] / "docs" / "results.md"


def test_every_mark_says_what_it_means_and_what_to_do() -> None:
    needed = {
        "oversubscribed", "generator-bound", "receiver-bound", "unstable", "schedule-missed",
        "flooding", "lossy-receiver-socket", "short-window", "no-baseline",
        "mixed-connect-modes", "software-emulated", "unverified", "corrupt-frames",
        "nothing-arrived",
    }  # fmt: skip
    assert needed <= set(MARKS)
    for name, mark in MARKS.items():
        assert name == mark.name
        assert mark.meaning.endswith(".")
        assert mark.remedy.endswith(".")
        assert explain(name) == f"{mark.meaning} {mark.remedy}"


def test_unknown_marks_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown trust mark"):
        explain("tired")


def test_the_verdict_and_the_table_agree_on_what_invalidates() -> None:
    fatal = {name for name in MARKS if not marks_are_valid([name])}
    assert set(judge.FATAL_MARKS) <= fatal
    assert marks_are_valid(["oversubscribed", "unstable"])
    assert not marks_are_valid(["oversubscribed", "flooding"])


def test_the_documentation_holds_the_same_table() -> None:
    assert markdown_table() in DOCS.read_text(), "paste markdown_table() into docs/results.md"
