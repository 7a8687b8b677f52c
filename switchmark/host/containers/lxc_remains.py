"""Removes an LXC container of ours from the machine, whatever state it was left in.

`lxc-stop` needs a living monitor process. After a `kill -9` there may be none, so this works from
what the kernel knows: the container's control groups and what runs in them.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

from switchmark.host.kernel import cgroups, procfs

LXC_LOCK_DIR = Path("/run/lxc/lock")


def remove(name: str, lxcpath: Path) -> None:
    """Kill what runs in the container and remove its control groups, lock and directory."""
    groups = cgroups_of(name)
    procfs.end_processes(cgroups.members(groups), grace_s=0.5)
    for group in groups:
        cgroups.remove_tree(group)
    _remove_lock(name, lxcpath)
    with suppress(FileNotFoundError):
        shutil.rmtree(lxcpath / name)
    with suppress(OSError):
        lxcpath.rmdir()  # the last container closes the door


def cgroups_of(name: str) -> list[Path]:
    """Control groups that LXC made for a container, in every hierarchy.

    LXC appends `-1` and so on when a name was taken by the remains of an earlier start."""
    return [
        entry
        for base in cgroups.bases()
        for entry in base.iterdir()
        if is_of(entry.name, name) and entry.is_dir()
    ]


def is_of(group: str, name: str) -> bool:
    """Whether LXC names a control group so for a container of this name."""
    wanted = rf"lxc\.(payload|monitor|pivot)\.{re.escape(name)}(-[0-9]+)?"
    return re.fullmatch(wanted, group) is not None


def _remove_lock(name: str, lxcpath: Path) -> None:
    """LXC keeps /run/lxc/lock/LXCPATH/.NAME for ever; remove it and what it leaves empty."""
    directory = LXC_LOCK_DIR / str(lxcpath).lstrip("/")
    with suppress(FileNotFoundError):
        (directory / f".{name}").unlink()
    while directory != LXC_LOCK_DIR and LXC_LOCK_DIR in directory.parents:
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent
