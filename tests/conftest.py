"""Settings of all tests: a known state of the process (known_state.py), and examples of hypothesis.

Examples have no time limit, because a busy machine is not a failure (the default is 0.2 s). Each
run has the same examples, so that a new failure has a cause in the change; `--hypothesis-profile
default` generates other examples.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path, PurePath

import pytest
from hypothesis import HealthCheck, settings

from tests.known_state import establish
from tests.places import NAMESPACES, reason_to_skip

establish()
settings.register_profile(
    "patient", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

# Files of integration tests that run in every place of the bench: their tests have marks for their
# needs. All others measure in network namespaces of the machine.
ANYWHERE = {
    "test_history_store", "test_ordinary_user", "test_packages", "test_place_limits",
    "test_quick_in_places", "test_store", "test_store_runs", "test_store_s3_faults",
}  # fmt: skip


QUICK = Path(__file__).with_name("quick.txt")


def quick_tests() -> set[str]:
    """Return the lines of tests/quick.txt: files below tests/, or functions in them."""
    lines = (line.partition("#")[0].strip() for line in QUICK.read_text().splitlines())
    return {line for line in lines if line}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick tests. Skip tests of network namespaces if this place does not allow these."""
    quick = quick_tests()
    for item in items:
        file = PurePath(item.nodeid.partition("::")[0]).as_posix().removeprefix("tests/")
        function = item.nodeid.partition("::")[2].partition("[")[0]
        if not quick.isdisjoint({file, f"{file}::{function}"}):
            item.add_marker("quick")
    machine = [
        item
        for item in items
        if item.get_closest_marker("integration") and PurePath(item.path).stem not in ANYWHERE
    ]
    if machine and (reason := reason_to_skip(*NAMESPACES)) is not None:
        for item in machine:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Append the number of skipped tests by reason to the file that `./check` names."""
    file = os.environ.get("SWITCHMARK_LEFT_OUT")
    if not file or hasattr(terminalreporter.config, "workerinput"):
        return  # the first process of several reports for all of them
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        text = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        reasons[" ".join(str(text).removeprefix("Skipped: ").split())] += 1
    with Path(file).open("a") as out:
        out.writelines(f"{count}\t{reason}\n" for reason, count in reasons.items())
