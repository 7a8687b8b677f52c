"""Opening endpoints, with programs that play Docker, Podman and LXC."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from switchmark.errors import UnavailableError
from switchmark.host.network import entered
from switchmark.host.network.entered import open_endpoint, opened
from switchmark.model.endpoints import read_endpoint


def play(folder: Path, name: str, answer: str, code: int = 0) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n")
    program.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.parametrize(
    ("program", "text", "answer"),
    [
        ("docker", "docker:web", "true {}"),
        ("podman", "podman:web", "true {}"),
        ("lxc-info", "lxc:web", "{}"),
    ],
)
def test_a_container_is_its_process(programs: Path, program: str, text: str, answer: str) -> None:
    play(programs, program, answer.format(os.getpid()))
    with opened([read_endpoint(text)]) as (found,):
        assert found.holder is not None and found.holder.identity.pid == os.getpid()
        assert found.handle.inode == Path("/proc/self/ns/net").stat().st_ino
        assert found.moved() is None


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        ("", 1, "has no such container"),
        ("true", 0, "has no such container"),
        ("false 0", 0, "does not run"),
        ("true 0", 0, "does not run"),
        ("true -7", 0, "does not run"),
        ("true 7x", 0, "does not run"),
        ("true 99999999999", 0, "does not run"),
        ("<no value> <no value>", 0, "has no such container"),
    ],
)
def test_an_answer_without_a_process_is_refused(
    programs: Path, answer: str, code: int, reason: str
) -> None:
    play(programs, "docker", answer, code)
    with pytest.raises(UnavailableError, match=reason):
        open_endpoint(read_endpoint("docker:web"))


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entered, "which", lambda _: None)
    with pytest.raises(UnavailableError, match="apt install lxc"):
        open_endpoint(read_endpoint("lxc:web"))


def test_a_process_that_ends_is_noticed() -> None:
    process = subprocess.Popen(["sleep", "60"])
    with opened([read_endpoint(f"pid:{process.pid}")]) as (found,):
        assert found.moved() is None
        process.kill()
        process.wait()
        assert "has ended or was restarted" in str(found.moved())


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(UnavailableError, match="no such network device"):
        open_endpoint(read_endpoint("dev:smnone0"))


@pytest.mark.parametrize(
    ("text", "remedy"), [("netns:smnone", "see `ip netns`"), ("pid:2147483647", "see `ps -e`")]
)
def test_an_endpoint_that_is_absent_has_a_remedy(text: str, remedy: str) -> None:
    with pytest.raises(UnavailableError, match=remedy):
        open_endpoint(read_endpoint(text))
