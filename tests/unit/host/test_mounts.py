"""The file system of a path, and the storage driver of the bench's Docker daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.host.containers import docker_daemon
from switchmark.host.kernel import mounts

GUEST = """\
1 1 0:2 / / rw - rootfs none rw
25 1 0:23 / / rw,relatime - overlay overlay rw,lowerdir=/lower,upperdir=/upper
28 25 0:24 / /run rw,relatime - tmpfs tmpfs rw
30 25 8:1 / /var/my\\040disk rw,relatime shared:3 - ext4 /dev/sda1 rw
31 25 8:2 / /run2 rw,relatime - xfs /dev/sda2 rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "overlay"),
        ("/var/cache", "overlay"),
        ("/run", "tmpfs"),
        ("/run/switchmark/sm1", "tmpfs"),
        ("/running", "overlay"),
        ("/var/my disk/data", "ext4"),
    ],
)
def test_deepest_and_last_mount_counts(path: str, kind: str) -> None:
    assert mounts.filesystem_of(path, GUEST.encode()) == kind


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (GUEST, True),
        ("124 111 0:21 / /proc rw - proc proc rw\n", False),  # a chroot into a plain folder
        ("", True),  # a sandbox that shows no mount
    ],
)
def test_root_is_a_mount_point_outside_of_a_plain_chroot(lines: str, expected: bool) -> None:
    assert mounts.is_root_mounted(lines.encode()) is expected


def test_this_machine_has_a_result() -> None:
    assert mounts.filesystem_of("/proc/self") == "proc"


@pytest.mark.parametrize(
    ("kind", "driver"), [("overlay", "vfs"), ("9p", "vfs"), ("ext4", "overlay2")]
)
def test_overlay_is_not_used_on_an_overlay(
    kind: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a daemon ended with `error initializing graphdriver: driver not supported`."""
    monkeypatch.setattr(docker_daemon, "filesystem_of", lambda _path: kind)
    monkeypatch.setattr(Path, "read_text", lambda _path: "nodev\toverlay\n\text4\n")
    assert docker_daemon._storage_driver(Path("/data")) == driver
