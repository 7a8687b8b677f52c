"""Removes an LXC container of the bench, also after a `kill -9`.

`lxc-stop` needs the monitor process of the container, which may be gone. This module needs only the
container's control groups and the processes in them.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

from switchmark.host.kernel import cgroups, procfs

LXC_LOCK_DIR = Path("/run/lxc/lock")


def remove(name: str, lxcpath: Path) -> None:
    """Kill the container's processes; remove its control groups, lock and directory."""
    groups = cgroups_of(name)
    procfs.end_processes(cgroups.members(groups), grace_s=0.5)
    for group in groups:
        cgroups.remove_tree(group)
    _remove_lock(name, lxcpath)
    with suppress(FileNotFoundError):
        shutil.rmtree(lxcpath / name)
    with suppress(OSError):
        lxcpath.rmdir()  # It is empty after the last container.


def cgroups_of(name: str) -> list[Path]:
    """Return the control groups that LXC created for a container, in every hierarchy.

    LXC appends `-1` and so on if a group of an earlier start still has the name."""
    return [
        entry
        for base in cgroups.bases()
        for entry in base.iterdir()
        if is_of(entry.name, name) and entry.is_dir()
    ]


def is_of(group: str, name: str) -> bool:
    """Return True if LXC gives this name to a control group of the container `name`."""
    pattern = rf"lxc\.(payload|monitor|pivot)\.{re.escape(name)}(-[0-9]+)?"
    return re.fullmatch(pattern, group) is not None


def _remove_lock(name: str, lxcpath: Path) -> None:
    """Remove /run/lxc/lock/LXCPATH/.NAME, which LXC leaves behind, and its empty parents."""
    directory = LXC_LOCK_DIR / str(lxcpath).lstrip("/")
    # An ordinary user may not read root's folder, and has no container in it.
    with suppress(FileNotFoundError, PermissionError):
        (directory / f".{name}").unlink()
    while directory != LXC_LOCK_DIR and LXC_LOCK_DIR in directory.parents:
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent
