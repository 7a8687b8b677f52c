"""A program in a container: its visible files, and finding its process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from switchmark.host.containers import in_container
from switchmark.host.containers.in_container import Inside, ShownPath


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
