"""The faults of tests/mutants.py fit the sources as they are, and the table has a row for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import DOCUMENT, MUTANTS, ROOT, Mutant, table_rows


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_each_fault_can_be_put_into_the_sources(mutant: Mutant, tmp_path: Path) -> None:
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    copy.write_text((ROOT / mutant.file).read_text())
    mutant.put_into(tmp_path)
    assert copy.read_text() != (ROOT / mutant.file).read_text()


@pytest.mark.skipif(not table_rows(DOCUMENT.read_text()), reason="tools/mutants --write makes it")
def test_every_fault_of_the_table_was_found() -> None:
    table = table_rows(DOCUMENT.read_text())
    named = [line.split("|")[1].strip() for line in table]
    assert named == ["none", *(one.fault for one in MUTANTS)]
    assert [one for one, line in zip(named, table, strict=True) if "| nothing |" in line] in (
        [],
        ["none"],
    )
