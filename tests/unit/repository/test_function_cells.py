"""The table of planted errors: it has each switch with each of its functions, and its tests
exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from switchmark.switch.registry import SWITCHES
from tests.function_cells import CANNOT_BE_PLANTED, FOLDER, found_by
from tests.function_mutations import EVERY_MUTATION

ROOT = Path(__file__).parents[3]


def cells() -> set[tuple[str, str]]:
    """Each switch with each planted error of its functions."""
    return {
        (name, mutation.name)
        for name in SWITCHES
        for mutation in EVERY_MUTATION
        if mutation.function in SWITCHES[name]().capabilities.functions
    }


def test_every_planted_error_has_a_test_in_every_switch() -> None:
    in_table = {(switch, error) for switch, error, _ in found_by()}
    assert in_table.isdisjoint(CANNOT_BE_PLANTED)
    assert in_table | CANNOT_BE_PLANTED.keys() == cells()


def test_every_function_of_a_switch_has_a_planted_error() -> None:
    planted = {mutation.function for mutation in EVERY_MUTATION}
    functions = {name for switch in SWITCHES for name in SWITCHES[switch]().capabilities.functions}
    assert functions == planted


def test_the_tests_of_the_table_exist() -> None:
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / FOLDER).glob("test_functions_*"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *files],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    tests = done.stdout.splitlines()
    missing = [
        (switch, error)
        for switch, error, pattern in found_by()
        if not any(re.fullmatch(pattern, test) for test in tests)
    ]
    assert not missing, done.stdout + done.stderr
