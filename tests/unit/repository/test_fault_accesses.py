"""The hook that refuses a program's accesses to the machine, with a program of three accesses."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.accesses import CHANGES, HOOK, LOOKS, STARTS, answers_to

PROGRAM = """
import os
def work():
    os.listdir("/")
    open("/dev/null").close()
    open("/dev/null", "w").close()
    for _ in range(2):
        try:
            os.mkdir("made")
        except OSError as error:
            print(error.errno)
"""
PLACES = ["four.py:4 os.listdir", "four.py:5 open", "four.py:6 open to write", "four.py:9 os.mkdir"]


def run(folder: Path, refused: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "four.py").write_text(PROGRAM)
    environment = {
        "PYTHONPATH": f"{HOOK}:{folder}", "PYTHONDONTWRITEBYTECODE": "1",
        "SM_PACKAGE": str(folder), "SM_TELL": str(folder / "told"), "SM_REFUSE": refused,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", "import four; four.work()"],
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_each_place_is_listed_once(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0
    assert (tmp_path / "told").read_text().splitlines() == PLACES


@pytest.mark.parametrize("place", PLACES[:3])
def test_place_is_refused(tmp_path: Path, place: str) -> None:
    done = run(tmp_path, f"{place} {errno.EMFILE}")
    assert "OSError: [Errno 24] Too many open files" in done.stderr
    assert (tmp_path / "told").read_text().splitlines() == [place]


def test_place_is_refused_once(tmp_path: Path) -> None:
    done = run(tmp_path, f"{PLACES[3]} {errno.ENOSPC}")
    assert (done.returncode, done.stdout) == (0, f"{errno.ENOSPC}\n")
    assert (tmp_path / "made").is_dir()


def test_errors_are_possible_answers_of_the_kernel() -> None:
    assert answers_to("a.py:1 open to write") == answers_to("a.py:1 os.mkdir") == CHANGES
    assert answers_to("a.py:1 open") == LOOKS and answers_to("a.py:1 subprocess.Popen") == STARTS
