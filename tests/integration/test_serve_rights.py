"""`switchmark serve`, started by root: which of root's rights it keeps."""

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
    """A server of its own: its process id, and the address that it tells."""
    with subprocess.Popen(
        [*before, *SERVE, *words], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stderr is not None
            told = server.stderr.readline()
            found = re.search(r"(http://\S+)", told)
            assert found, told + server.stderr.read()
            yield server.pid, found[1]
        finally:
            server.kill()


def kept(pid: int) -> int:
    """What all threads may do, of which none has more than another."""
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


def test_it_keeps_none(tmp_path: Path) -> None:
    run = write_run(tmp_path, [synthetic_record()])
    with serving("--results", str(tmp_path), "--listen", "0") as (pid, address):
        assert run.name in read(address)
        assert "<html" in read(f"{address}run/{run.name}"), "its report can be made"
        assert len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
        assert kept(pid) == 0


def test_runs_of_others_in_closed_folders_can_be_read() -> None:
    folder = Path(tempfile.mkdtemp(prefix="smserve", dir="/var/tmp"))
    try:
        run = write_run(folder, [synthetic_record()])
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        folder.chmod(0o700)
        with serving("--results", str(folder), "--listen", "0") as (pid, address):
            assert run.name in read(address)
            assert kept(pid) == sum(1 << one for one in READING.values())
    finally:
        shutil.rmtree(folder)


def test_a_program_in_a_folder_of_another_user_can_be_loaded(tmp_path: Path) -> None:
    """As where root runs what somebody has installed in a home that is closed to others."""
    run = write_run(tmp_path / "results", [synthetic_record()])
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    (theirs / "package").symlink_to(Path(__file__).parents[2])
    os.chown(theirs, NOBODY, NOBODY)
    words = ("--results", str(tmp_path / "results"), "--listen", "0")
    before = ("env", "-C", "/", f"PYTHONPATH={theirs}/package")
    with serving(*words, before=before) as (pid, address):
        assert run.name in read(address)
        assert kept(pid) == sum(1 << one for one in READING.values())


def test_a_port_of_roots_can_be_listened_at(tmp_path: Path) -> None:
    words = ("--results", str(tmp_path), "--listen", "88")
    with serving(*words, before=tuple(IN_A_NETWORK)) as (pid, _):
        assert kept(pid) == sum(1 << one for one in LISTENING.values())
