"""What fails by chance is run again and named; what is broken stays so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TWICE = Path(__file__).parents[2] / "tools/twice"
BROKEN = "def test_broken(): assert False\n"
SOUND = "def test_sound():\n    import pathlib; pathlib.Path('ran').open('a').write('x')\n"
CHANCY = """\
def test_chancy():
    import pathlib
    flag = pathlib.Path("was-here")
    there = flag.exists()
    flag.touch()
    assert there
"""


ALONE = """\
def test_alone():
    import os
    assert "PYTEST_XDIST_WORKER" not in os.environ
"""


def twice(tmp_path: Path, tests: str, *more: str) -> tuple[int, str]:
    (tmp_path / "test_it.py").write_text(tests)
    apart = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    ran = subprocess.run(
        [sys.executable, TWICE, "-q", "-p", "no:randomly", "test_it.py", *more],
        cwd=tmp_path, env=apart, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout


def test_what_fails_by_chance_is_run_again_alone_and_named(tmp_path: Path) -> None:
    code, said = twice(tmp_path, SOUND + CHANCY)
    assert code == 0
    assert "PASSED ONLY THE SECOND TIME:\n  test_it.py::test_chancy\n" in said
    assert (tmp_path / "ran").read_text() == "x", "what passed is not run again"


def test_what_ran_beside_others_is_run_again_beside_none(tmp_path: Path) -> None:
    code, said = twice(tmp_path, ALONE, "-n", "2")
    assert code == 0
    assert "PASSED ONLY THE SECOND TIME:\n  test_it.py::test_alone\n" in said


def test_what_is_broken_fails(tmp_path: Path) -> None:
    code, said = twice(tmp_path, CHANCY + BROKEN)
    assert code == 1
    assert "FAILED TWICE:\n  test_it.py::test_broken\n" in said
    assert "PASSED ONLY THE SECOND TIME:\n  test_it.py::test_chancy\n" in said


def test_many_failures_are_not_chance(tmp_path: Path) -> None:
    many = "".join(CHANCY.replace("chancy", f"chancy_{k}").replace("was", f"{k}") for k in range(4))
    code, said = twice(tmp_path, many)
    assert code == 1 and "once more" not in said


def test_tests_that_cannot_be_read_are_no_chance(tmp_path: Path) -> None:
    code, said = twice(tmp_path, "import nothing_of_the_kind\n")
    assert code == 2 and "once more" not in said
