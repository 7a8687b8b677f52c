"""Control groups of both versions: their hierarchies, members and removal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.host.kernel.mounts import MountPoint, read_mounts
from switchmark.host.kernel.procfs import ProcessIdentity, end_processes

# A group stays busy until its last process has ended, which takes seconds on a busy machine.
REMOVAL_S = 10.0


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """The group of a process in one hierarchy."""

    hierarchy: str  # its number; 0: the hierarchy of version 2
    controllers: tuple[str, ...]
    path: str  # below the mount point of the hierarchy; empty: its root


def memberships(pid: int | None = None, content: bytes | None = None) -> list[GroupMembership]:
    """Return the groups of a process (by default this process), or those in the `content` of its
    file. Groups that this process cannot see are left out. Raises OSError."""
    if content is None:
        content = Path(f"/proc/{pid or 'self'}/cgroup").read_bytes()
    groups = []
    for line in content.split(b"\n"):
        number, *rest = os.fsdecode(line).split(":", 2)
        if len(rest) == 2 and ".." not in rest[1].split("/"):
            groups.append(GroupMembership(number, tuple(rest[0].split(",")), rest[1].strip("/")))
    return groups


def own_groups(
    controller: str, content: bytes | None = None, mountinfo: bytes | None = None
) -> list[Path]:
    """Return the directories of this process's group and of its visible parents, innermost first.

    The group is that of the hierarchy with the `controller`. Groups of both versions are returned,
    since a machine may have the controller in one version and the process in groups of the other.
    A group that the controller does not limit has no files of the controller. `content` and
    `mountinfo` are the contents of /proc/self/cgroup and /proc/self/mountinfo."""
    groups: list[Path] = []
    paths = {
        member.hierarchy == "0": member.path
        for member in memberships(content=content)
        if member.hierarchy == "0" or controller in member.controllers
    }
    visited: set[bool] = set()
    for mount in read_mounts(mountinfo):
        is_unified = mount.kind == "cgroup2"
        has_controller = is_unified or (mount.kind == "cgroup" and controller in mount.options)
        if not has_controller or is_unified in visited or is_unified not in paths:
            continue
        group = _visible_directory(mount, paths[is_unified])
        if group is not None:
            visited.add(is_unified)
            top = Path(mount.point)
            groups += [path for path in (group, *group.parents) if path.is_relative_to(top)]
    return groups


def _visible_directory(mount: MountPoint, path: str) -> Path | None:
    """Return the directory of a group in a mounted hierarchy, or of its innermost visible parent.

    None if neither is visible. The mount of a container may begin at the group of the container.
    If the namespace was created later, the mount begins above that group (`/..`), and the names
    between are unknown."""
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
    """Return the mount point of every hierarchy on this machine."""
    points = {Path(mount.point) for mount in read_mounts() if mount.kind in ("cgroup", "cgroup2")}
    return sorted(path for path in points if path.is_dir())


def bases() -> list[Path]:
    """Return the root of every hierarchy and this process's group in it.

    Other programs may create groups in both."""
    members = {member.path for member in memberships()}
    directories = {root / path for root in roots() for path in ("", *members)}
    return sorted(path for path in directories if path.is_dir())


def remove_tree(group: Path) -> None:
    """Remove a group and its nested groups; a missing group is not an error.

    Raises OSError if a process still runs in one of them."""
    deadline = time.monotonic() + REMOVAL_S
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
    """Return all processes in these groups and in their nested groups."""
    processes: set[ProcessIdentity] = set()
    for group in groups:
        for listing in group.rglob("cgroup.procs"):
            with suppress(OSError):
                identities = map(ProcessIdentity.of, map(int, listing.read_text().split()))
                processes.update(identity for identity in identities if identity)
    return list(processes)


def remove_named(name: str) -> None:
    """End the processes in the groups of this name, and remove the groups from every hierarchy.

    A container engine that is short of memory can leave the first process of a container there.
    Raises OSError."""
    groups = [group for base in bases() if (group := base / name).is_dir()]
    end_processes(members(groups), grace_s=0.5)
    for group in groups:
        with suppress(FileNotFoundError):
            remove_tree(group)
