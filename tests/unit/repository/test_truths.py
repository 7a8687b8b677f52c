"""The table of reference checks: every method is compared with an independent source."""

from __future__ import annotations

import pytest

from switchmark.method.registry import METHODS
from tests import truths

# Calibration is R+, one-way latency and paced trials without a switch.
FIGURES = set(METHODS) - {"calibrate"} | {
    "throughput", "latency, one way", "latency, round trip", "CPU cost",
    "frames lost", "frames doubled", "frames reordered",
}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> list[truths.Truth]:
    return truths.found()


def test_every_figure_has_a_judge_that_is_not_ours(rows: list[truths.Truth]) -> None:
    judged = {one.figure for one in rows if one.whose != "ours"}
    assert judged >= FIGURES, f"nobody judges {FIGURES - judged}"


def test_the_document_holds_what_the_tests_tell(rows: list[truths.Truth]) -> None:
    assert truths.table() in truths.DOCUMENT.read_text(), "run: python -m tests.truths"
    assert len({(one.figure, one.truth, one.test) for one in rows}) == len(rows)
