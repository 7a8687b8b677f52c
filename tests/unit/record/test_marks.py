"""Trust marks: one table, with the same texts everywhere."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from switchmark.record.marks import MARKS, explain, markdown_table, marks_are_valid
from switchmark.trial import judge

DOCS = Path(__file__).parents[3] / "docs" / "results.md"


def test_every_mark_has_a_meaning_and_a_remedy() -> None:
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


def test_every_mark_that_the_verdict_gives_is_in_the_table() -> None:
    given = re.findall(r'^        "([a-z-]+)":', inspect.getsource(judge.verdict), re.MULTILINE)
    assert len(given) >= 10
    assert set(given) <= set(MARKS)


def test_marks_that_invalidate() -> None:
    fatal = {name for name in MARKS if not marks_are_valid([name])}
    assert {"flooding", "unverified", "corrupt-frames", "nothing-arrived"} <= fatal
    assert marks_are_valid(["oversubscribed", "unstable"])
    assert not marks_are_valid(["oversubscribed", "flooding"])


def test_documentation_has_the_same_table() -> None:
    assert markdown_table() in DOCS.read_text(), "run: python -m switchmark.record.schema"
