"""Programs of bench/ and tools/ run by a Python that has the bench's packages, or end at once."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
# The first runs without a .venv, the third needs the standard library alone, and the last is a
# child of bench/places. tools/tutorial needs the packages of .venv-docs.
NEEDS_NOTHING = {
    "tools/sbom-engine", "tools/own_python.py", "tools/words", "tools/tutorial",
    "bench/places_side.py",
}  # fmt: skip
PROGRAM = re.compile(r'\A#!.*python|^if __name__ == "__main__":', re.MULTILINE)


def checkout(folder: Path) -> Path:
    """Make a checkout with one program, which prints its arguments."""
    (folder / "tools").mkdir()
    (folder / "bench").mkdir()
    shutil.copy(ROOT / "tools/own_python.py", folder / "tools")
    program = folder / "bench" / "program"
    program.write_text(
        "import sys\nfrom pathlib import Path\n"
        "sys.path.insert(0, str(Path(__file__).resolve().parents[1]))\n"
        "import tools.own_python\nprint('program', *sys.argv[1:])\n"
    )
    return program


def run(program: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, str(program), "word"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_without_packages_starts_again_with_own_python(tmp_path: Path) -> None:
    program = checkout(tmp_path)
    interpreter = tmp_path / ".venv/bin/python"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text('#!/bin/sh\necho own "$@"\n')
    interpreter.chmod(0o755)
    assert run(program, "-S").stdout == f"own -S {program} word\n"
    assert run(program).stdout == "program word\n", "this Python has the packages"


def test_without_own_python_ends_at_once_with_remedy(tmp_path: Path) -> None:
    done = run(checkout(tmp_path), "-S")
    assert (done.returncode, done.stdout) == (1, "")
    assert "bench/program: " in done.stderr and "lacks duckdb, numpy" in done.stderr
    assert "./quickstart --setup-only" in done.stderr


def test_every_program_uses_own_python() -> None:
    files = [one for place in ("bench", "tools") for one in (ROOT / place).rglob("*")]
    texts = {
        str(one.relative_to(ROOT)): one.read_text(errors="replace")
        for one in files
        if one.is_file() and one.suffix in ("", ".py") and "__pycache__" not in one.parts
    }
    programs = {name for name, text in texts.items() if PROGRAM.search(text)} - NEEDS_NOTHING
    assert len(programs) > 15
    lacking = [name for name in sorted(programs) if "\nimport tools.own_python" not in texts[name]]
    assert not lacking
