"""tools/twice: a test that fails by chance runs again and is listed; a broken test fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TWICE = Path(__file__).parents[3] / "tools/twice"
BROKEN = "def test_broken(): assert False\n"
SOUND = "def test_sound():\n    import pathlib; pathlib.Path('ran').open('a').write('x')\n"
CHANCY = """\
def test_chancy():
    import pathlib
    flag = pathlib.Path("second-run")
    is_second_run = flag.exists()
    flag.touch()
    assert is_second_run
"""
ALONE = """\
def test_alone():
    import os
    assert "PYTEST_XDIST_WORKER" not in os.environ
"""


def run_twice(folder: Path, tests: str, *more: str) -> tuple[int, str]:
    """Run tools/twice on a file of tests; return its exit code and its output."""
    (folder / "test_it.py").write_text(tests)
    environment = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    environment["SWITCHMARK_SECOND_TRY"] = str(folder / "second-try")
    done = subprocess.run(
        [sys.executable, TWICE, "-q", "-p", "no:randomly", "test_it.py", *more],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def second_tries(folder: Path) -> list[str]:
    """Return the tests in the file of second tries."""
    file = folder / "second-try"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.split("\t")[2] for line in lines]


def test_failure_by_chance_is_repeated_and_listed(tmp_path: Path) -> None:
    """A test that passed is not repeated."""
    code, output = run_twice(tmp_path, SOUND + CHANCY)
    assert code == 0
    assert "PASSED ONLY THE SECOND TIME:\n  test_it.py::test_chancy\n" in output
    assert (tmp_path / "ran").read_text() == "x"
    assert second_tries(tmp_path) == ["test_it.py::test_chancy"]


def test_second_try_is_alone(tmp_path: Path) -> None:
    """A test that ran beside others is repeated beside no other."""
    code, output = run_twice(tmp_path, ALONE, "-n", "2")
    assert code == 0
    assert "PASSED ONLY THE SECOND TIME:\n  test_it.py::test_alone\n" in output


def test_broken_test_fails_twice(tmp_path: Path) -> None:
    """Only the test that passed the second time is in the file."""
    code, output = run_twice(tmp_path, CHANCY + BROKEN)
    assert code == 1
    assert "FAILED TWICE:\n  test_it.py::test_broken\n" in output
    assert second_tries(tmp_path) == ["test_it.py::test_chancy"]


def test_many_failures_are_not_repeated(tmp_path: Path) -> None:
    """More than five failures do not happen by chance."""
    many = "".join(
        CHANCY.replace("chancy", f"chancy_{k}").replace("second", f"{k}") for k in range(6)
    )
    code, output = run_twice(tmp_path, many)
    assert code == 1 and "once more" not in output
    assert second_tries(tmp_path) == []


def test_unreadable_file_of_tests_is_not_repeated(tmp_path: Path) -> None:
    """An error of collection is not chance."""
    code, output = run_twice(tmp_path, "import nothing_of_the_kind\n")
    assert code == 2 and "once more" not in output
