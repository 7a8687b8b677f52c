"""Stored cases (`tools/faults --rows`, tests/faults/seen) and the page with their tables:
`python -m tests.faults.kept` writes them into docs/evidence/reliability.md."""

from __future__ import annotations

from pathlib import Path

from tests.faults.bench import ROOT
from tests.faults.row import Row, rows_in
from tests.faults.table import tables

FOLDER = Path(__file__).parent / "seen"
PAGE = ROOT / "docs" / "evidence" / "reliability.md"
BEGIN, END = "<!-- of tests/faults/seen -->\n", "<!-- until here -->"


def stored_rows() -> list[Row]:
    """Return all stored rows by seed."""
    files = sorted(FOLDER.glob("*.jsonl"))
    rows = [row for file in files for row in rows_in(file.read_text().splitlines())]
    return sorted(rows, key=lambda row: (row.seed, row.revision))


def page(now: str) -> str:
    """Return the page with the tables of the stored rows."""
    before, _, rest = now.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables(stored_rows())}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
