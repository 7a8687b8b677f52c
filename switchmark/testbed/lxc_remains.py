"""Taking an LXC container of ours off the machine, whatever state it was left in.

`lxc-stop` needs a living monitor process. After a `kill -9` there may be none, so this
works from what the kernel knows: the container's control groups and what runs in them.
"""

from __future__ import annotations

import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from switchmark.testbed import procfs
from switchmark.testbed.procfs import ProcessIdentity

LXC_LOCK_DIR = Path("/run/lxc/lock")


def remove(name: str, lxcpath: Path) -> None:
    """Kill what runs in the container and remove its control groups, lock and directory."""
    groups = cgroups_of(name)
    procfs.end_processes(_members(groups), grace_s=0.5)
    for group in groups:
        _remove_cgroup(group)
    _remove_lock(name, lxcpath)
    with suppress(FileNotFoundError):
        shutil.rmtree(lxcpath / name)
    with suppress(OSError):
        lxcpath.rmdir()  # the last container closes the door


def cgroups_of(name: str) -> list[Path]:
    """Control groups that LXC made for a container, in every hierarchy.

    LXC appends `-1` and so on when a name was taken by the remains of an earlier start."""
    wanted = re.compile(rf"lxc\.(payload|monitor|pivot)\.{re.escape(name)}(-\d+)?")
    return [
        entry
        for base in _cgroup_bases()
        for entry in base.iterdir()
        if wanted.fullmatch(entry.name) and entry.is_dir()
    ]


def _cgroup_bases() -> list[Path]:
    """The root of every hierarchy, and our own group in it (where LXC may nest)."""
    bases: set[Path] = set()
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = {line.split(":", 2)[2].strip("/") for line in lines}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.split()[0] not in ("cgroup", "cgroup2"):
            continue
        root = Path(left.split()[4])
        bases.add(root)
        bases.update(root / path for path in own)
    return sorted(base for base in bases if base.is_dir())


def _members(groups: list[Path]) -> list[ProcessIdentity]:
    found: set[ProcessIdentity] = set()
    for group in groups:
        for listing in group.rglob("cgroup.procs"):
            with suppress(OSError):
                identities = map(ProcessIdentity.of, map(int, listing.read_text().split()))
                found.update(identity for identity in identities if identity)
    return list(found)


def _remove_cgroup(group: Path) -> None:
    """Remove a group and those nested in it; a group stays busy for a moment after its last
    process has ended, so this tries for a second."""
    deadline = time.monotonic() + 1.0
    nested = sorted(
        (path for path in group.rglob("*") if path.is_dir()), key=lambda p: -len(p.parts)
    )
    for path in (*nested, group):
        while True:
            try:
                path.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)
            else:
                break


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
