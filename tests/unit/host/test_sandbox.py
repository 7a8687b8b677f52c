"""The sandbox of a foreign program: permitted and forbidden calls, tried from inside."""

from __future__ import annotations

import errno
import json
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from switchmark.host.privileges import landlock_launcher, sandbox
from switchmark.model.rights import Rights

ASKS = Path(__file__).parents[1] / "wall_asks.py"
VERSION = landlock_launcher.call(
    landlock_launcher.CREATE_RULESET, None, 0, landlock_launcher.ASK_VERSION
)
# The error of each call, from this version of Landlock on.
REFUSED = {
    "write": (errno.EACCES, 1),
    "cut": (errno.EACCES, 3),
    "make": (errno.EACCES, 1),
    "make a folder": (errno.EACCES, 1),
    "make a link": (errno.EACCES, 1),
    "make a fifo": (errno.EACCES, 1),
    "make a socket": (errno.EACCES, 1),
    "remove": (errno.EACCES, 1),
    "remove a folder": (errno.EACCES, 1),
    "move out": (errno.EACCES, 1),
    "run": (errno.EACCES, 1),
    "look into another process": (errno.EACCES, 1),
    "signal": (errno.EPERM, 6),
    "listen at TCP": (errno.EACCES, 4),
    "connect by TCP": (errno.EACCES, 4),
    "abstract socket": (errno.EPERM, 6),
}
WORKS = ("inside", "read", "write to /dev/null", "name a thread", "signal itself")
LEFT = ("named socket", "change a mode")  # as stated in SECURITY.md

pytestmark = pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv")


@contextmanager
def like_it_without_a_wall() -> Iterator[int]:
    """A process with the same capabilities, outside of the sandbox."""
    with subprocess.Popen(
        sandbox.sandbox_command(["cat"], Rights()), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as cat:
        assert cat.stdin is not None and cat.stdout is not None
        cat.stdin.write(b"begun\n")
        cat.stdin.flush()
        assert cat.stdout.readline() == b"begun\n"
        yield cat.pid
        cat.stdin.close()


def answers(tmp_path: Path, *, behind: bool) -> dict[str, int]:
    """Return the errors of a program that may write in one folder, and tries another."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    (outside / "empty").mkdir(parents=True)
    for file in (inside / "kept", outside / "file", outside / "victim"):
        file.write_text("text")
    name = f"switchmark-{tmp_path.name}-{behind}"
    with ExitStack() as stack:
        by_tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address in (f"\0{name}", str(outside / "listens")):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen(1)
        other = stack.enter_context(like_it_without_a_wall())
        arguments = map(str, (ASKS, inside, outside, other, by_tcp.getsockname()[1], name))
        rights = Rights(writes=(str(inside),) if behind else None)
        done = subprocess.run(
            sandbox.sandbox_command([sys.executable, *arguments], rights),
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    return dict(json.loads(done.stdout))


@pytest.mark.skipif(VERSION < 1, reason="a kernel without Landlock")
def test_sandbox_forbids_calls(tmp_path: Path) -> None:
    errors = answers(tmp_path, behind=True)
    for call, (error, since) in REFUSED.items():
        if since <= VERSION:
            moved = (
                {errno.EXDEV} if call == "move out" else set()
            )  # the same error as between file systems
            assert errors[call] in {error} | moved, call
    assert {call: errors[call] for call in (*WORKS, *LEFT)} == dict.fromkeys((*WORKS, *LEFT), 0)
    assert set(errors) == {*REFUSED, *WORKS, *LEFT}


def test_without_a_sandbox_no_call_is_refused(tmp_path: Path) -> None:
    errors = answers(tmp_path, behind=False)
    assert errors == dict.fromkeys(errors, 0)


@pytest.mark.skipif(VERSION < 1, reason="a kernel without Landlock")
def test_interpreter_of_a_script_is_not_known(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n/bin/true && echo ran; echo text >$0\n")
    script.chmod(0o700)
    done = subprocess.run(
        sandbox.sandbox_command([str(script)], Rights(writes=())),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "ran\n", done.stderr
    assert done.returncode != 0 and script.read_text().startswith("#!"), "it runs in the sandbox"


def test_program_starts_as_without_a_sandbox() -> None:
    done = subprocess.run(
        sandbox.sandbox_command(["cat", "/proc/self/status"], Rights(writes=())),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    status = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)
    assert status["Name"] == "cat" and status["NoNewPrivs"] == "1"
    ignored = int(status["SigIgn"], 16)
    for signal in (landlock_launcher.PIPE, landlock_launcher.FILE_SIZE):
        assert not ignored & 1 << signal - 1


def test_loader_of_a_program_is_found() -> None:
    assert sandbox._loader(str(Path(sys.executable).resolve())) is not None
    assert sandbox._loader(str(ASKS)) is None
    assert sandbox._loader("/nowhere") is None
    assert sandbox._programs(["cat", "--option", "/proc"])[0] == shutil.which("cat")


@pytest.mark.parametrize("version", range(-1, 8))
def test_older_kernel_forbids_less(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rulesets: list[tuple[int, ...]] = []
    restricted: list[int] = []

    def call(number: int, *arguments: Any) -> int:
        if number == landlock_launcher.CREATE_RULESET and arguments[0] is None:
            return version
        if number == landlock_launcher.CREATE_RULESET:
            rulesets.append(struct.unpack("=QQQ", arguments[0]))
        if number == landlock_launcher.RESTRICT_SELF:
            restricted.append(arguments[0])
        return 1000

    monkeypatch.setattr(landlock_launcher, "call", call)
    monkeypatch.setattr(landlock_launcher.os, "close", lambda _: None)
    landlock_launcher.build([], ["/bin/true"])
    assert len(rulesets) == len(restricted) == (version > 0)
    for files, tcp, scopes in rulesets:
        reads = landlock_launcher.READ_FILE | landlock_launcher.READ_DIR
        known = 13 + (version >= 2) + (version >= 3) + (version >= 5)
        assert files == (1 << 13) - 1 - reads | sum(
            bit for since, bit in landlock_launcher.ADDED.items() if version >= since
        )
        assert files.bit_count() == known - 2
        assert (tcp, scopes) == (3 * (version >= 4), 3 * (version >= 6))
