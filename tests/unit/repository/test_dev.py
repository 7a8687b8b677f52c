"""The developer command ./dev, and the set-up of .venv that it relies on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a program with a plain environment, and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    return subprocess.run(
        arguments, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def in_setup(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a function of tools/setup.sh in a folder."""
    return run("/bin/bash", "-euc", f". '{ROOT}/tools/setup.sh'; {command}", cwd=folder)


def selected(pattern: str) -> set[str]:
    """Return the names of the files of unit tests that a pattern selects."""
    definitions = (ROOT / "dev").read_text().partition("[ $# -gt 0 ]")[0]
    script = definitions.partition(". tools/setup.sh")[0] + definitions.partition("steps.sh\n")[2]
    done = run("/bin/bash", "-c", f'{script}\ntests_of tests/unit "$1"', str(ROOT / "dev"), pattern)
    assert done.returncode == 0, done.stderr
    return {Path(line).name for line in done.stdout.splitlines()}


@pytest.mark.parametrize("arguments", [[], ["nosuchstep"]])
def test_dev_without_known_step_is_usage_error(arguments: list[str]) -> None:
    """The usage lists all steps, and nothing is started."""
    done = run(str(ROOT / "dev"), *arguments)
    assert done.returncode == 2 and "integration PATTERN" in done.stderr


def test_pattern_selects_by_part_of_file_name() -> None:
    """A part of a name selects each file whose name contains it."""
    assert selected("tools_twice") == {"test_tools_twice.py"}


def test_pattern_of_missing_file_selects_nothing() -> None:
    """The pattern is then a part of the name of a test."""
    assert selected("there_is_no_such_file") == set()


def test_package_link_replaces_installed_copy(tmp_path: Path) -> None:
    """Python then imports the package from the checkout."""
    site = tmp_path / ".venv/lib/python3.11/site-packages"
    (site / "switchmark").mkdir(parents=True)
    (site / "switchmark/old.py").touch()
    assert in_setup(tmp_path, "link_package").returncode == 0
    assert not (site / "switchmark").exists()
    assert (site / "switchmark.pth").read_text() == f"{tmp_path}\n"


def test_source_stamp_follows_c_files_only(tmp_path: Path) -> None:
    """A change of a Python file needs no build; a change of a C file does."""
    for name in ("engine/main.c", "switchmark/api.py", "lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before")

    def stamp() -> str:
        return in_setup(tmp_path, "source_stamp lock").stdout

    first = stamp()
    (tmp_path / "switchmark/api.py").write_text("after")
    assert stamp() == first != ""
    (tmp_path / "engine/main.c").write_text("after")
    assert stamp() != first


@pytest.mark.parametrize("has_cmocka", [True, False])
def test_c_tests_without_cmocka_are_left_out(tmp_path: Path, has_cmocka: bool) -> None:
    """An ordinary user cannot install it, and everything else can be checked without it."""
    programs = {
        "tools/fuzz": "exit 0",
        ".venv/bin/meson": f'echo "$*" >>"{tmp_path}/calls"',
        ".venv/bin/pkg-config": f"[ $2 != cmocka ] || exit {0 if has_cmocka else 1}",
    }
    for name, text in programs.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = in_setup(
        tmp_path, f". '{ROOT}/tools/steps.sh'; left_out=out; sanitized_build; c_tests some"
    )
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text()
    assert ("-Dtests=enabled" in calls, "test -C build-fuzz" in calls) == (has_cmocka, has_cmocka)
    left_out = (tmp_path / "out").read_text() if not has_cmocka else ""
    assert left_out == ("" if has_cmocka else "C unit tests\tno libcmocka-dev\n")
