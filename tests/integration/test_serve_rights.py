"""The capabilities of root that `switchmark serve` keeps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from switchmark.host.kernel.capabilities import LISTENING, READING
from tests.integration.machine import needs_root
from tests.unit.records import synthetic_record, write_run

pytestmark = [pytest.mark.integration, needs_root]

NOBODY = 65534
SERVE = [sys.executable, "-m", "switchmark.cli.main", "serve"]
CAPABILITIES = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
IN_A_NETWORK = ["unshare", "--net", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh"]


@contextmanager
def serving(*words: str, before: tuple[str, ...] = ()) -> Iterator[tuple[int, str]]:
    """Start a server; yields its process id and the address that it prints."""
    with subprocess.Popen(
        [*before, *SERVE, *words], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            found = re.search(r"(http://\S+)", line)
            assert found, line + server.stderr.read()
            yield server.pid, found[1]
        finally:
            server.kill()


def capabilities_of(pid: int) -> int:
    """Return the capabilities of all threads, which must be equal."""
    sets = set()
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        status = dict(re.findall(r"^(Cap\w+|NoNewPrivs):\t(\w+)$", path.read_text(), re.M))
        assert status.keys() == CAPABILITIES | {"NoNewPrivs"}
        assert status["NoNewPrivs"] == "1"
        assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
        assert status["CapEff"] == status["CapPrm"] == status["CapBnd"]
        sets.add(int(status["CapEff"], 16))
    (found,) = sets
    return found


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read().decode()


def test_serve_keeps_no_capability(tmp_path: Path) -> None:
    run = write_run(tmp_path, [synthetic_record()])
    with serving("--results", str(tmp_path), "--listen", "0") as (pid, address):
        assert run.name in read(address)
        assert "<html" in read(f"{address}run/{run.name}"), "its report can be rendered"
        assert len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
        assert capabilities_of(pid) == 0


def test_runs_in_closed_folders_of_others_can_be_read() -> None:
    folder = Path(tempfile.mkdtemp(prefix="smserve", dir="/var/tmp"))
    try:
        run = write_run(folder, [synthetic_record()])
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        folder.chmod(0o700)
        with serving("--results", str(folder), "--listen", "0") as (pid, address):
            assert run.name in read(address)
            assert capabilities_of(pid) == sum(1 << one for one in READING.values())
    finally:
        shutil.rmtree(folder)


def test_a_program_in_a_folder_of_another_user_can_be_loaded(tmp_path: Path) -> None:
    """Root runs a program that another user installed in a home that is closed to others."""
    run = write_run(tmp_path / "results", [synthetic_record()])
    home = tmp_path / "theirs"
    home.mkdir(mode=0o700)
    (home / "package").symlink_to(Path(__file__).parents[2])
    os.chown(home, NOBODY, NOBODY)
    options = ("--results", str(tmp_path / "results"), "--listen", "0")
    before = ("env", "-C", "/", f"PYTHONPATH={home}/package")
    with serving(*options, before=before) as (pid, address):
        assert run.name in read(address)
        assert capabilities_of(pid) == sum(1 << one for one in READING.values())


def test_privileged_port_can_be_used(tmp_path: Path) -> None:
    options = ("--results", str(tmp_path), "--listen", "88")
    with serving(*options, before=tuple(IN_A_NETWORK)) as (pid, _):
        assert capabilities_of(pid) == sum(1 << one for one in LISTENING.values())
