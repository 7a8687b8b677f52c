"""Runs the bench as an ordinary user: without root or capabilities, in separate folders."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from switchmark.engine.binary import find_engine
from switchmark.errors import UnavailableError

Job = subprocess.Popen[bytes]
ROOT = Path(__file__).parents[2]
DEADLINE_S = 300.0  # only a hanging process takes so long, also on a busy machine
# Switches that an ordinary user can measure if user namespaces are allowed.
SWITCHES = (
    "linux-bridge", "macvlan", "tc-redirect", "ovs-netdev", "af-packet", "basicfwd", "testpmd",
    "ovs-dpdk", "vpp", "bess", "fastclick",
)  # fmt: skip


@dataclass(frozen=True)
class OrdinaryUser:
    """A user, who is `nobody` if root runs the tests, and the user's home."""

    home: Path
    prefix: tuple[str, ...]  # runs a command line as this user

    @property
    def results(self) -> Path:
        return self.home / "results"

    def environment(self) -> dict[str, str]:
        dropped = ("SWITCHMARK_STATE_DIR", "SWITCHMARK_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR")
        inherited = {name: value for name, value in os.environ.items() if name not in dropped}
        return {
            **inherited,
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SWITCHMARK_TRAFFIC": str(find_engine()),
        }

    def command(self, *args: str) -> list[str]:
        return [*self.prefix, sys.executable, "-m", "switchmark", *args]

    def run(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run `switchmark` to its end."""
        return subprocess.run(
            self.command(*args),
            cwd=self.home,
            env={**self.environment(), **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    @contextmanager
    def started(self, *args: str, stderr: int = subprocess.DEVNULL) -> Iterator[Job]:
        """Start `switchmark` as the leader of a process group that is killed at the end."""
        with subprocess.Popen(
            self.command(*args), cwd=self.home, env=self.environment(), process_group=0,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
        ) as job:  # fmt: skip
            try:
                yield job
            finally:
                job.kill()

    def processes(self) -> dict[int, list[str]]:
        """Return the running processes of this user's benches with the words of their commands."""
        mark = f"HOME={self.home}".encode()
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    command = (path / "cmdline").read_bytes().decode(errors="replace")
                    found[int(path.name)] = command.removesuffix("\0").split("\0")
        return found


@contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """An ordinary user with an empty home. Skips the test if this is impossible."""
    home = Path(tempfile.mkdtemp(prefix="smuser", dir="/var/tmp"))
    user = user_with(home)
    try:
        if (reason := why_not(user)) is not None:
            pytest.skip(reason)
        yield user
    finally:
        for pid in user.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)


def user_with(home: Path) -> OrdinaryUser:
    """Return the user with this home: the one who runs the tests or, for root, `nobody`."""
    if os.geteuid() != 0:
        return OrdinaryUser(home, ())
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    rights = ("--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--")
    ids = (f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}")
    return OrdinaryUser(home, ("setpriv", *ids, *rights))


def why_not(user: OrdinaryUser) -> str | None:
    """Return why this user cannot measure here; None if no reason is known."""
    try:
        engine = find_engine()
    except UnavailableError as error:
        return str(error)
    if _fails([*user.prefix, sys.executable, "-c", "import typer"]):
        return f"an ordinary user cannot run {sys.executable}"
    if _fails([*user.prefix, "test", "-r", str(ROOT / "switchmark"), "-a", "-x", str(engine)]):
        return f"an ordinary user cannot read {ROOT} or {engine}"
    make = "unshare --user --map-root-user --net ip link add v type veth"
    if _fails([*user.prefix, *make.split()]):
        return "an ordinary user cannot make user namespaces here"
    return None


def _fails(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


def children_of(pid: int) -> list[int]:
    """Return the children of a process; none if it has ended."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def first_and_bench_of(supervisor: int) -> tuple[int, int] | None:
    """Return the first process of the namespaces and the bench; None before they have started."""
    first = next((one for one in children_of(supervisor) if is_first(one)), 0)
    below = children_of(first)
    return (first, below[0]) if below else None


def is_first(pid: int) -> bool:
    """Return True if a process has the number 1 in its own namespace."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return any(one.startswith("NSpid:") and one.endswith("\t1") for one in status.splitlines())


def wait_until(is_true: object, condition: str, timeout_s: float = DEADLINE_S) -> None:
    """Wait until a function returns True."""
    assert callable(is_true)
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline, f"{condition}: not within {timeout_s:g} s"
        time.sleep(0.01)
