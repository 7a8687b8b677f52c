"""A program in a container: its visible files, and finding its process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.containers import in_container
from switchmark.host.containers.in_container import Contained, Inside, ShownPath
from switchmark.host.programs import with_folder
from tests.unit.instrument_fakes import FakeProgram


def test_init_of_a_container_may_have_no_child_yet() -> None:
    with subprocess.Popen(["sleep", "60"]) as alone:
        try:
            assert in_container._only_child(alone.pid) is None
            assert in_container._only_child(os.getpid()) is not None
        finally:
            alone.kill()
    assert in_container._only_child(alone.pid) is None, "the process may have ended"


def test_own_folder_and_its_parents_are_visible(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "bin"
    for folder in (real, link):
        folder.mkdir()
    (real / "vnf").write_text("#!/bin/sh\n")
    (link / "vnf").symlink_to(real / "vnf")
    (tmp_path / "lib64").mkdir()
    sockets = ShownPath(tmp_path / "sockets", True, Path("/run/vhost"))
    inside = Inside("c", [str(link / "vnf"), "/run/vhost/a.sock", "eth0"], ("net_raw",), [sockets])
    shown = {str(one.place): one.writable for one in inside.everything()}
    assert shown["/usr"] is False and shown["/run/vhost"] is True
    assert shown[str(link)] is shown[str(real)] is shown[str(tmp_path / "lib64")] is False
    assert not any(place in shown for place in ("/", "/etc", "/run", str(tmp_path)))


def test_files_in_usr_are_not_mounted_twice() -> None:
    inside = Inside("c", ["/usr/bin/env", "true"], (), [], cores=(3, 1))
    places = [str(one.place) for one in inside.everything()]
    assert len(places) == len(set(places)) and "/usr/bin" not in places
    assert inside.command() == ["/usr/bin/taskset", "-c", "1,3", "/usr/bin/env", "true"]


def test_pid_is_of_the_program_once_it_has_started() -> None:
    """The command that starts the container stands for the program before. The query is not
    repeated."""
    answers = iter([None, 4711])
    program = Contained(FakeProgram(""), lambda: next(answers))
    assert program.pid == 1
    assert [program.pid, program.pid, program.started()] == [4711, 4711, 4711]


def test_short_program_may_end_before_its_pid_is_known() -> None:
    def run(exit_code: int) -> Contained:
        outer = FakeProgram("", exit_code, stderr="no such user")
        return in_container._started(outer, "c", lambda: None)

    assert run(0).poll() == 0
    with pytest.raises(TrialFailed, match="container c ended with exit code 3: no such user"):
        run(3)


def test_with_folder_keeps_the_name_of_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program can act by its name, and /bin is a link that a container has not."""
    real, link = tmp_path / "usr/bin", tmp_path / "bin"
    real.mkdir(parents=True)
    link.symlink_to(real)
    (real / "redis-check-rdb").write_text("#!/bin/sh\n")
    (real / "redis-check-rdb").chmod(0o755)
    (real / "redis-server").symlink_to("redis-check-rdb")
    monkeypatch.setenv("PATH", str(link))
    assert with_folder("redis-server") == str(real / "redis-server")
    assert with_folder("no-such-program") == "no-such-program"
