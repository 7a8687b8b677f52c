"""Control groups of both versions: their hierarchies, and removing groups."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.host.kernel.mounts import MountPoint, mounted
from switchmark.host.kernel.procfs import ProcessIdentity, end_processes

# A group stays busy until its last process has ended, on a full machine for seconds.
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """The group that a process is in, in one hierarchy."""

    hierarchy: str  # its number; 0: the one of version 2
    controllers: tuple[str, ...]
    path: str  # below the mount point of the hierarchy; empty: its root


def memberships(pid: int | None = None, told: bytes | None = None) -> list[GroupMembership]:
    """The groups of a process, this one by default, or those in the content of its file. A group
    outside of what this process can see is left out. Raises OSError."""
    if told is None:
        told = Path(f"/proc/{pid or 'self'}/cgroup").read_bytes()
    found = []
    for line in told.split(b"\n"):
        number, *rest = os.fsdecode(line).split(":", 2)
        if len(rest) == 2 and ".." not in rest[1].split("/"):
            found.append(GroupMembership(number, tuple(rest[0].split(",")), rest[1].strip("/")))
    return found


def own_groups(
    controller: str, told: bytes | None = None, mountinfo: bytes | None = None
) -> list[Path]:
    """The directories of the group that limits this process by the controller, and of all its
    parents that are visible here, innermost first; of both versions, since a machine may have the
    controller in one and the process in groups of the other. Files of groups that a controller does
    not limit are absent. `told` and `mountinfo` are the contents of the process's files."""
    own: list[Path] = []
    paths = {
        one.hierarchy == "0": one.path
        for one in memberships(told=told)
        if one.hierarchy == "0" or controller in one.controllers
    }
    seen: set[bool] = set()
    for mount in mounted(mountinfo):
        is_unified = mount.kind == "cgroup2"
        is_ours = is_unified or (mount.kind == "cgroup" and controller in mount.options)
        if not is_ours or is_unified in seen or is_unified not in paths:
            continue
        group = _seen_through(mount, paths[is_unified])
        if group is not None:
            seen.add(is_unified)
            top = Path(mount.point)
            own += [one for one in (group, *group.parents) if one.is_relative_to(top)]
    return own


def _seen_through(mount: MountPoint, path: str) -> Path | None:
    """The directory of a group in a mounted hierarchy, or of its innermost parent that is visible
    there; None if neither is. The mount of a container may begin at the container's own group, or,
    if its namespace was made later, above it (`/..`), where the names between are unknown."""
    top, root = Path(mount.point), [part for part in mount.root.split("/") if part]
    parts = [part for part in path.split("/") if part]
    if root and set(root) == {".."}:
        parts = []
    elif parts[: len(root)] != root:
        return None
    else:
        parts = parts[len(root) :]
    while not (group := top.joinpath(*parts)).is_dir():
        if not parts:
            return None
        parts.pop()
    return group


def roots() -> list[Path]:
    """The mount point of every hierarchy on this machine."""
    found = {Path(one.point) for one in mounted() if one.kind in ("cgroup", "cgroup2")}
    return sorted(path for path in found if path.is_dir())


def bases() -> list[Path]:
    """The root of every hierarchy, and our own group in it (where others may nest theirs)."""
    own = {one.path for one in memberships()}
    found = {root / path for root in roots() for path in ("", *own)}
    return sorted(path for path in found if path.is_dir())


def remove_tree(group: Path) -> None:
    """Remove a group and those nested in it; one that is gone already is fine. Raises OSError while
    something still runs in one of them."""
    deadline = time.monotonic() + PATIENCE_S
    nested = sorted(
        (path for path in group.rglob("*") if path.is_dir()), key=lambda p: -len(p.parts)
    )
    for path in (*nested, group):
        while True:
            try:
                with suppress(FileNotFoundError):
                    path.rmdir()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)


def members(groups: Iterable[Path]) -> list[ProcessIdentity]:
    """All processes in these groups and those nested in them."""
    found: set[ProcessIdentity] = set()
    for group in groups:
        for listing in group.rglob("cgroup.procs"):
            with suppress(OSError):
                identities = map(ProcessIdentity.of, map(int, listing.read_text().split()))
                found.update(identity for identity in identities if identity)
    return list(found)


def remove_named(name: str) -> None:
    """End what still runs in the groups of this name, and remove them from every hierarchy. (A
    container engine that is short of memory leaves the first process of a container there that it
    did not get to start.) Raises OSError."""
    groups = [group for base in bases() if (group := base / name).is_dir()]
    end_processes(members(groups), grace_s=0.5)
    for group in groups:
        with suppress(FileNotFoundError):
            remove_tree(group)
