"""Helpers for the tests in virtual machines: machines, skips with their reason, records."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from switchmark.errors import UnavailableError
from switchmark.record import Record
from switchmark.results.run_directory import open_run
from tests.vm.guest import Machine, Outcome, machine

Runner = Callable[..., Outcome]

# Short, as a second of traffic in an emulated guest takes many seconds of the host.
TRIAL = (
    "python -m switchmark.cli.main trial {what} --environment netns --duration 2s --no-baseline "
    "--quiet --results /tmp/results --set trim.warm_up=0.4s --set trim.cool_down=0.2s "
    "--set interval=0.2s --set verify.timeout=60s --set verify.min_arrived=90%"
)

HUGEPAGES = """\
echo 256 >/proc/sys/vm/nr_hugepages
mkdir -p /dev/hugepages
mount -t hugetlbfs hugetlbfs /dev/hugepages
"""

# LXC and Docker need control groups; Docker's layers need another file system than the guest's.
CONTAINERS = """\
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /var/tmp
export XDG_CACHE_HOME=/var/tmp/cache
"""


def trial(parameters: str) -> str:
    """Return a line of a job: one trial, whose record goes to /exchange even if it fails."""
    return TRIAL.format(what=parameters)


CONTRACT = " ".join(
    f"tests/integration/test_switch_{part}.py" for part in ("forwarding", "contract", "shortages")
)


def inside(files: str, which: str) -> str:
    """Return a line of a job: tests of the host, run in the guest."""
    return f"python -m pytest -v -p no:cacheprovider {files} -k {shlex.quote(which)}\n"


def contract(which: str) -> str:
    """Return a line of a job: the tests of every switch, for one switch."""
    return inside(CONTRACT, which)


def check_contract(outcome: Outcome, count: int) -> None:
    """Check that so many tests ran inside and passed, without a skip for lack of the switch."""
    outcome.check()
    passed = re.search(r"(\d+) passed", outcome.output)
    assert passed is not None and int(passed[1]) == count, outcome.output[-3000:]


@pytest.fixture
def new_machine() -> Callable[..., Machine]:
    """Make machines by their properties; a test is skipped by name if that is impossible."""
    if os.geteuid() != 0:
        pytest.skip("needs root: guests are given the host's files as root has them")

    def make(**properties: object) -> Machine:
        try:
            return machine(**properties)  # type: ignore[arg-type]
        except UnavailableError as error:
            pytest.skip(str(error))

    return make


@pytest.fixture
def keep() -> Iterator[Callable[[Outcome], Outcome]]:
    """Outcomes whose folders are removed when the test has ended."""
    folders: list[Path] = []

    def remember(outcome: Outcome) -> Outcome:
        folders.append(outcome.folder)
        return outcome

    yield remember
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def records(outcome: Outcome, count: int = 1) -> list[Record]:
    """Return the records that the guest's bench has stored, in the order of their measurement."""
    runs = sorted((outcome.folder / "results").glob("trial-*"))
    found = [record for run in runs for record in open_run(run).records()]
    assert len(found) == count, (
        f"{len(found)} records:\n{outcome.output[-3000:]}\n{outcome.console[-1000:]}"
    )
    return sorted(found, key=lambda record: record.started_at)


def check_forwarded(record: Record, switch: str, mode: str) -> None:
    """Check a trial that ran to its end, verified, with every frame accounted for."""
    assert record.status == "finished", record.message
    assert (record.trial.switch, record.connect_mode) == (switch, mode)
    assert record.verification is not None
    assert record.verification.passed, record.verification.message
    assert record.throughput is not None
    assert record.throughput.forwarded_pps > 0
    assert record.switch_details["version"]
    assert record.reconciliation is not None
    assert record.reconciliation.sent > 0
