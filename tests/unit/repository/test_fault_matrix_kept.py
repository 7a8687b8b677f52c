"""The stored cases of the fault matrix, and the page with their tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.faults.inflict import FAULTS
from tests.faults.kept import PAGE, page, stored_rows
from tests.faults.machines import OWN
from tests.faults.phases import PHASES


def test_tables_are_those_of_the_stored_cases() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "python -m tests.faults.kept"


def test_stored_cases_can_be_repeated() -> None:
    names = {fault.name for fault in (*FAULTS, *OWN)}
    for row in stored_rows():
        assert row.fault in names and row.phase in PHASES
        assert row.revision and row.met >= row.inflicted
        assert f"--case {row.seed} " in row.again


def test_finding_of_a_stored_case_is_in_the_page() -> None:
    explained, _, _ = PAGE.read_text().partition("<!-- of tests/faults/seen -->")
    for row in stored_rows():
        assert not row.findings or str(row.seed) in explained, row.case


def test_matrices_end_with_the_tool_that_started_them(tmp_path: Path) -> None:
    matrix = tmp_path / "matrix"
    matrix.write_text("#!/bin/sh\necho $$\nexec sleep 600\n")
    matrix.chmod(0o755)
    run = (
        "from pathlib import Path; from tests.faults import side_by_side; "
        f"side_by_side.TOOL = Path({str(matrix)!r}); side_by_side.main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", run, "--jobs", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as tool:
        assert tool.stdout is not None
        matrices = [int(tool.stdout.readline()) for _ in range(2)]
        tool.kill()
        tool.communicate(timeout=300)  # ends once no matrix holds its output
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in matrices)
