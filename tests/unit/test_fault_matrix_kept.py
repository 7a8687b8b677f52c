"""The cases of the fault matrix that are kept, and the page that tells of them."""

from __future__ import annotations

from tests.faults.inflict import FAULTS
from tests.faults.kept import PAGE, kept, page
from tests.faults.machines import OWN
from tests.faults.phases import PHASES


def test_the_tables_are_those_of_the_kept_cases() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "python -m tests.faults.kept"


def test_kept_cases_can_be_tried_again() -> None:
    names = {fault.name for fault in (*FAULTS, *OWN)}
    for row in kept():
        assert row.fault in names and row.phase in PHASES
        assert row.revision and row.met >= row.inflicted
        assert f"--case {row.seed} " in row.again


def test_a_finding_of_a_kept_case_is_told_of() -> None:
    text = PAGE.read_text()
    for row in kept():
        assert not row.findings or f"Seed {row.seed}" in text, row.case
