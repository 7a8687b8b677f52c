"""Run the examples of docs/extending*.md: each in a copy of the package with one more file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import switchmark

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("extending*.md"))


def example(mark: str, language: str = "python") -> str:
    """Return the only block of code in the pages that contains this text."""
    pages = "".join(page.read_text() for page in PAGES)
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", pages, re.MULTILINE | re.DOTALL)
    (text,) = [block for block in blocks if mark in block]
    return str(text)


def copy_with(folder: Path, file: str, text: str) -> Path:
    """Make a copy of the package in this folder, with one more file."""
    package = folder / "switchmark"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(switchmark.__file__).parent, package, ignore=ignored)
    added = package / file
    assert not added.exists()
    added.write_text(text)
    return package


def run_in(package: Path, *args: str, timeout_s: float = 600) -> str:
    """Run Python with this copy of the package and with the tests, and return its output."""
    path = os.pathsep.join([str(package.parent), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *args],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        cwd=package.parent,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bench_in(package: Path, *args: str, timeout_s: float = 600) -> str:
    """Run the bench of this copy of the package, and return its output."""
    return run_in(package, "-m", "switchmark.cli.main", *args, timeout_s=timeout_s)
