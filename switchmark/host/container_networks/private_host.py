"""A network namespace with separate files, which plays the host of container networks.

Plugins and daemons that expect to change their host run in it. Their bridges, firewall rules,
settings and address files stay inside, and end with it. All files of the machine are read-only
there, except the folders of the session that take the place of /var/lib/cni.

The mount namespace is built again whenever it is needed, from the name of the network namespace and
a folder. So the ledger can undo what a killed bench had begun.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from switchmark.host.kernel import mounts, namespaces
from switchmark.host.private.calls import CLONE_NEWNS, MS_REC, MS_SLAVE, mount, unshare

_CLONE_FS = 0x00000200
_SYS_MOUNT_SETATTR = 442  # the same number on all architectures
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY = 1
CNI_STATE = Path("/var/lib/cni")
# Tools would ask the machine's firewalld by this bus to change the machine's firewall.
BUS = Path("/run/dbus")
Result = TypeVar("Result")


class PrivateHost:
    """The namespaces of one private host. `folder` holds the files that it may write."""

    def __init__(
        self, netns: str, folder: Path, *, read_only: bool = True, empty_run: bool = False
    ) -> None:
        """`empty_run`: folders of the session take the place of /run and /var/lib."""
        self.netns = netns
        self.folder = folder
        self._read_only = read_only
        self._empty_run = empty_run
        self._mounts = -1  # file descriptor of the mount namespace
        self._mutex = threading.Lock()

    def exists(self) -> bool:
        """Return True if the network namespace and the folder are there."""
        return (namespaces.NETNS_DIR / self.netns).exists() and self.folder.is_dir()

    def inside(self, action: Callable[[], Result]) -> Result:
        """Run an action with the network and the files of this host, in a separate thread.

        Programs that the action starts are also in these namespaces."""
        with self._mutex:
            if self._mounts < 0:
                self._mounts = namespaces.inside(self.netns, self._make_mounts)
        entered = self._mounts

        def enter_and_act() -> Result:
            unshare(_CLONE_FS, "file-system attributes of a thread")
            result = mounts.libc().setns(entered, CLONE_NEWNS)
            mounts.check_result(result, f"mount namespace of {self.netns}")
            return action()

        return namespaces.inside(self.netns, enter_and_act)

    def mounts_path(self) -> str:
        """Return the path by which `nsenter --mount` enters the mount namespace."""
        self.inside(lambda: None)
        return f"/proc/{os.getpid()}/fd/{self._mounts}"

    def close(self) -> None:
        """Give up the mount namespace, which then ends with its last process. Idempotent."""
        with self._mutex, suppress(OSError):
            if self._mounts >= 0:
                os.close(self._mounts)
            self._mounts = -1

    def _make_mounts(self) -> int:
        """Make the mount namespace in this thread; return a descriptor of it."""
        unshare(CLONE_NEWNS, "mount namespace")
        mount("none", Path("/"), "", MS_REC | MS_SLAVE)
        if self._read_only:
            _set_read_only(Path("/"), on=True)
            for path in (Path("/proc"), Path("/dev")):
                _set_read_only(path, on=False)
        self._mount_sys()
        self._mount_state()
        if self._empty_run:
            empty = self.folder / "run"
            (empty / namespaces.NETNS_DIR.name).mkdir(mode=0o755, parents=True, exist_ok=True)
            mounts.bind(empty, namespaces.NETNS_DIR.parent)
        elif BUS.is_dir():
            empty = self.folder / "bus"
            empty.mkdir(mode=0o700, exist_ok=True)
            mounts.bind(empty, BUS)
        return os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def _mount_sys(self) -> None:
        """Mount the /sys of the network namespace, with the machine's control groups in it."""
        groups, saved = Path("/sys/fs/cgroup"), self.folder / "cgroup"
        has_groups = groups.is_dir()
        if has_groups:
            # The folder is a mount now, which can be made writable.
            _bind_recursively(self.folder, self.folder)
            _set_read_only(self.folder, on=False)
            saved.mkdir(exist_ok=True)
            _bind_recursively(groups, saved)
        mount("sysfs", Path("/sys"), "sysfs", 0)
        if has_groups and groups.is_dir():
            _bind_recursively(saved, groups)

    def _mount_state(self) -> None:
        """Put folders of the session in the place of /var/lib/cni. If the machine has no such
        folder, or with an empty /run, one takes the place of /var/lib: Podman has files there."""
        state = self.folder / "state"
        is_apart = CNI_STATE.is_dir() and not self._empty_run
        target = CNI_STATE if is_apart else CNI_STATE.parent
        if target != CNI_STATE:
            state = self.folder / "lib"
            (state / CNI_STATE.name).mkdir(mode=0o700, parents=True, exist_ok=True)
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        if target.is_dir():
            mounts.bind(state, target)
            _set_read_only(target, on=False)


def _bind_recursively(source: Path, target: Path) -> None:
    result = mounts.libc().mount(
        os.fsencode(source), os.fsencode(target), b"none", mounts.MS_BIND | MS_REC, None
    )
    mounts.check_result(result, f"mount {source} on {target}")


def _set_read_only(path: Path, *, on: bool) -> None:
    """Make the mounts at and below a path read-only or writable, in this mount namespace only.

    Linux before 5.12 lacks the call; the files then stay writable for root."""
    flags = (_MOUNT_ATTR_RDONLY, 0) if on else (0, _MOUNT_ATTR_RDONLY)
    attributes = (ctypes.c_uint64 * 4)(*flags, 0, 0)
    result = mounts.libc().syscall(
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        ctypes.c_char_p(os.fsencode(path)),
        _AT_RECURSIVE,
        attributes,
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    mounts.check_result(result, f"mount attributes of {path}", accepted=(errno.ENOSYS,))
