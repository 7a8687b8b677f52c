"""A bench on an unusual machine: a mount point whose name is not text, a standard error that nobody
reads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.results.run_directory import open_run
from switchmark.switch.registry import make_switch
from tests.integration.engine_tools import engine_path, needs_engine
from tests.integration.machine import needs_root, own_state, remains
from tests.integration.main_job import ATTEMPTS, STARVED
from tests.integration.test_clean import ROOT, deploy, remains_soon

pytestmark = [*needs_engine, needs_root]
ENGINE = engine_path()
BENCH = [sys.executable, "-m", "switchmark"]
# Prefix of a command: a file system in a private mount namespace, at a point of any bytes.
MOUNTED = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"']


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield from own_state(monkeypatch, tmp_path)


def odd_folder(parent: Path) -> str:
    """Make a folder whose name is not UTF-8 and has characters that mountinfo escapes."""
    folder = os.fsdecode(os.fsencode(parent) + b"/\xff\xfe a\\b")
    Path(folder).mkdir(parents=True)
    return folder


def measured(results: Path, before: list[str], **more: object) -> int:
    """Return the exit code of a short run with one stored trial; a trial without a core is
    repeated."""
    if not (found := make_switch("linux-bridge").availability()).available:
        pytest.skip(f"linux-bridge: {found.reason}")
    keys = ("duration=0.5s", "trim.warm_up=0.1s", "environment=netns", "repetitions=1")
    short = [word for key in keys for word in ("--set", key)]
    command = [*before, *BENCH, "run", "(V=linux-bridge, P=64)", *short,
               "--no-baseline", "--results", str(results)]  # fmt: skip
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": str(ENGINE)}
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, check=False, timeout=300, env=environment, **more)  # type: ignore[call-overload]
        (directory,) = results.iterdir()
        (record,) = open_run(directory).records()
        if not record.message.startswith(STARVED):
            break
        command = [*command, *(["--resume"] if "--resume" not in command else [])]
    assert record.status == "finished", record.message
    return int(done.returncode)


def test_mount_point_that_is_not_text_does_not_hinder_a_run(state: Path, tmp_path: Path) -> None:
    before = [*MOUNTED, odd_folder(tmp_path)]
    assert measured(tmp_path / "results", before, capture_output=True) == 0


def test_mount_point_that_is_not_text_does_not_hinder_clean(state: Path, tmp_path: Path) -> None:
    """In the folder of the dead session it belongs to another user and stays; elsewhere it is
    ignored."""
    bench = deploy("netns", "--wait")
    assert bench.stdout is not None
    session_id = bench.stdout.readline().strip()
    assert bench.stdout.readline() == "deployed\n"
    bench.kill()
    bench.communicate()
    assert len(remains(state, session_id)) > 3

    def clean(folder: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*MOUNTED, folder, *BENCH, "clean"],
            check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    refused = clean(odd_folder(state / session_id / "mounts"))
    assert refused.returncode == 1 and "mounted in it" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    done = clean(odd_folder(tmp_path / "elsewhere"))
    assert (done.returncode, done.stderr) == (0, "")
    assert remains_soon(state, session_id) == []


def test_full_standard_error_does_not_stop_a_run(state: Path, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        assert measured(tmp_path / "results", [], stderr=full, stdout=subprocess.DEVNULL) == 0
