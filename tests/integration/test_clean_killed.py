"""The cleaner is killed at each of its steps in turn; the next cleaner continues there, and the
last one completes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from switchmark.environment.registry import ENVIRONMENTS
from switchmark.host.undo import ledger as ledgers
from tests.integration.machine import every_environment, needs_root, own_state, remains
from tests.integration.test_clean import ROOT, deploy, remains_soon

pytestmark = [pytest.mark.integration, needs_root]

# Forks a `switchmark clean` for each place that it reads, because Python takes long to start. The
# cleaner kills itself at that place ("whole": nowhere).
CLEAN = """
import os, signal, sys
from switchmark.cli.main import run
from switchmark.host.undo import ledger as ledgers

def die_at(holder, name, after):
    deed = getattr(holder, name)
    def dying(*args):
        if after:
            deed(*args)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(holder, name, dying)

PLACES = {
    "before all": (ledgers.Ledger, "undo_all", False),
    "processes are ended": (ledgers.MarkedProcesses, "undo", True),
    "undone, not struck": (ledgers.Ledger, "strike", False),
    "struck": (ledgers.Ledger, "strike", True),
    "before closing": (ledgers.Ledger, "close", False),
    "closed": (ledgers.Ledger, "close", True),
}
run(["clean", "--dry-run"])  # loads what each of them needs
while line := sys.stdin.readline():
    if (child := os.fork()) == 0:
        if line.strip() in PLACES:
            die_at(*PLACES[line.strip()])
        os._exit(run(["clean"]))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("ended", code, flush=True)
"""


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    yield from own_state(monkeypatch, tmp_path)


@contextmanager
def cleaner() -> Iterator[Callable[[str], int]]:
    """Clean and die at a place; return the exit code."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLEAN], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    requests, answers = process.stdin, process.stdout

    def clean(place: str) -> int:
        requests.write(f"{place}\n")
        requests.flush()
        while not (line := answers.readline()).startswith("ended"):
            assert line, "the cleaner ended"
        return int(line.split()[1])

    try:
        yield clean
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", every_environment())
def test_cleaner_after_a_killed_cleaner_completes(state: Path, name: str) -> None:
    if not (availability := ENVIRONMENTS[name]().availability()).available:
        pytest.skip(f"{name}: {availability.reason}; {availability.remedy}")
    bench = deploy(name, "--wait")
    assert bench.stdout is not None
    session_id = bench.stdout.readline().strip()
    assert bench.stdout.readline() == "deployed\n"
    bench.kill()
    bench.communicate()
    path = state / f"{session_id}{ledgers.SUFFIX}"

    def outstanding() -> int:
        return len(ledgers.read(path).entries)

    with cleaner() as clean:
        entries = outstanding()
        assert entries > 3 and len(remains(state, session_id)) > 3
        for place in ("before all", "processes are ended"):
            assert clean(place) == -signal.SIGKILL
            assert outstanding() == entries, place
        for left in reversed(range(entries)):
            assert clean("undone, not struck") == -signal.SIGKILL
            assert outstanding() == left + 1
            assert clean("struck") == -signal.SIGKILL
            assert outstanding() == left
        assert clean("before closing") == -signal.SIGKILL and path.exists()
        assert clean("whole") == 0
    assert remains_soon(state, session_id) == [] and not path.exists()


@pytest.mark.parametrize("place", ["undone, not struck", "closed"])
def test_leftovers_of_killed_cleaner_are_removed_at_once(state: Path, place: str) -> None:
    bench = deploy("netns", "--wait")
    assert bench.stdout is not None
    session_id = bench.stdout.readline().strip()
    assert bench.stdout.readline() == "deployed\n"
    bench.kill()
    bench.communicate()
    with cleaner() as clean:
        assert clean(place) == -signal.SIGKILL
        assert clean("whole") == 0
    assert remains_soon(state, session_id) == []
