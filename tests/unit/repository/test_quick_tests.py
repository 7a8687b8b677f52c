"""tests/quick.txt: the tests that ./check runs without an option use each part of the bench."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from switchmark.cli.main import COMMANDS
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.method.registry import METHODS
from switchmark.scenario.registry import WRITTEN
from switchmark.switch.registry import SWITCHES
from tests.conftest import quick_tests

TESTS = Path(__file__).parents[2]
ROOT = TESTS.parent
# The parts that need a virtual machine, tests with the mark `slow`, or no devices at all.
TESTED_ELSEWHERE = {
    "qemu": "vm",
    "attach": "cni",
    "calibrate": "slow",
    "soak": "slow",
    "one-way": "slow",
}


def names_of_tests(file: Path) -> set[str]:
    """Return the names of the test functions in a file."""
    tree = ast.parse(file.read_text())
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {node.name for node in nodes if node.name.startswith("test_")}


def source_of(line: str) -> str:
    """Return the source of a file, or of a function in it."""
    file, _, function = line.partition("::")
    text = (TESTS / file).read_text()
    if not function:
        return text
    nodes = ast.walk(ast.parse(text))
    node = next(x for x in nodes if isinstance(x, ast.FunctionDef) and x.name == function)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


@pytest.fixture(scope="module")
def source() -> str:
    """The source of all quick tests."""
    return "\n".join(source_of(line) for line in sorted(quick_tests()))


@pytest.mark.parametrize("line", sorted(quick_tests()))
def test_each_line_names_tests(line: str) -> None:
    """A file or a function that does not exist would silently not be tested."""
    file, _, function = line.partition("::")
    tests = names_of_tests(TESTS / file)
    assert function in tests if function else tests, f"tests/quick.txt: {line}: no such test"


def missing(source: str, names: set[str]) -> list[str]:
    """Return the names that the source does not contain as a whole word."""
    return sorted(n for n in names if not re.search(rf"(?<![\w-]){re.escape(n)}(?![\w-])", source))


def test_quick_tests_use_each_switch() -> None:
    """The tests of the contract run with every switch that the registry has."""
    assert "integration/test_switch_contract.py" in quick_tests()
    contract = (TESTS / "integration/test_switch_contract.py").read_text()
    assert '@pytest.mark.parametrize("name", SWITCHES)' in contract
    assert len(SWITCHES) > 10


def test_quick_tests_use_each_environment(source: str) -> None:
    """Virtual machines are tested by tools/vm-tests."""
    assert missing(source, set(ENVIRONMENTS) - {"qemu"}) == []


def test_quick_tests_use_each_scenario(source: str) -> None:
    """A family of scenarios, for example `loopback-N`, has a number at its end."""
    names = {re.split(r"[MN](?=x|\b)", name)[0].rstrip("-") for name in WRITTEN}
    assert [name for name in names if name not in source] == []


def test_quick_tests_use_each_method(source: str) -> None:
    """All others have a unit test of a whole run, and integration tests with the mark `slow`."""
    assert set(missing(source, set(METHODS))) <= set(TESTED_ELSEWHERE)


def test_quick_tests_use_each_command(source: str) -> None:
    """Unit tests start all other commands."""
    unit = "\n".join(path.read_text() for path in TESTS.glob("unit/**/test_*.py"))
    assert missing(source + unit, {f'"{name}"' for name in COMMANDS}) == []


# A test of each row of docs/interfaces.md: a unit test, or an integration test that must be quick.
INTERFACES = {
    "JUnit XML": "unit/cli/test_ci.py",
    "Bencher Metric Format": "unit/cli/test_ci.py",
    "GitHub Actions, GitLab CI": "unit/cli/test_ci.py",
    "OpenMetrics 1.0": "integration/test_prometheus.py",
    "Grafana dashboard": "integration/test_prometheus.py",
    "Open Traffic Generator API 1.61": "integration/test_otg.py",
    "Python": "integration/test_notebooks.py",
    "Forms": "unit/report/test_form.py",
    "Foreign generators": "integration/test_instruments.py",
}


def test_quick_tests_use_each_interface() -> None:
    """Each interface of the page has a test that ./check runs without an option."""
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/interfaces.md").read_text(), re.MULTILINE)
    names = {re.split(r" \(|:", row)[0] for row in rows if row not in ("interface", "---")}
    assert names == set(INTERFACES)
    for file in INTERFACES.values():
        assert (TESTS / file).exists()
        assert file.startswith("unit/") or file in quick_tests(), file
