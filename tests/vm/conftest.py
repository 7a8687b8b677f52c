"""What the tests in virtual machines share: machines, skips with their reason, records."""

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

# Short: in an emulated guest a second of traffic costs many of the host's.
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

# LXC and Docker put containers into control groups; Docker's layers do not lie on the guest's own.
CONTAINERS = """\
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /var/tmp
export XDG_CACHE_HOME=/var/tmp/cache
"""


def trial(what: str) -> str:
    """A line of a job: one trial, its record left in /exchange even where it fails."""
    return TRIAL.format(what=what)


CONTRACT = " ".join(
    f"tests/integration/test_switch_{part}.py" for part in ("forwarding", "contract", "shortages")
)


def inside(files: str, which: str) -> str:
    """A line of a job: those of the host's own tests, run in the guest."""
    return f"python -m pytest -v -p no:cacheprovider {files} -k {shlex.quote(which)}\n"


def contract(which: str) -> str:
    """A line of a job: the tests that every switch passes, for one of them."""
    return inside(CONTRACT, which)


def check_contract(outcome: Outcome, count: int) -> None:
    """So many tests ran inside, and passed: none is skipped for want of the switch."""
    outcome.check()
    passed = re.search(r"(\d+) passed", outcome.output)
    assert passed is not None and int(passed[1]) == count, outcome.output[-3000:]


@pytest.fixture
def new_machine() -> Callable[..., Machine]:
    """Machines by their properties; a test is skipped by name where one cannot be had."""
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
    """Outcomes whose folders go when the test has ended."""
    folders: list[Path] = []

    def remember(one: Outcome) -> Outcome:
        folders.append(one.folder)
        return one

    yield remember
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def records(outcome: Outcome, count: int = 1) -> list[Record]:
    """The records that the guest's bench has stored, read as any other results, in the order of
    their measurement."""
    runs = sorted((outcome.folder / "results").glob("trial-*"))
    found = [record for run in runs for record in open_run(run).records()]
    assert len(found) == count, (
        f"{len(found)} records:\n{outcome.output[-3000:]}\n{outcome.console[-1000:]}"
    )
    return sorted(found, key=lambda record: record.started_at)


def check_forwarded(record: Record, switch: str, mode: str) -> None:
    """A trial that ran to its end, verified, with no frame unaccounted for."""
    assert record.status == "finished", record.message
    assert (record.trial.switch, record.connect_mode) == (switch, mode)
    assert record.verification is not None
    assert record.verification.passed, record.verification.message
    assert record.throughput is not None
    assert record.throughput.forwarded_pps > 0
    assert record.switch_details["version"]
    assert record.reconciliation is not None
    assert record.reconciliation.sent > 0
