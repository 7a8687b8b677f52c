"""Containers and control groups that the bench makes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from switchmark.host.undo.entries.entry import NamedEntry, NewPath, UndoEntry, foreign_name
from switchmark.host.undo.entries.processes import Process


def _makes(entry: UndoEntry, container: str) -> bool:
    """Return True if the entry is the process that makes this container. If it was still starting,
    it would make parts of the container again after their removal."""
    return isinstance(entry, Process) and entry.container == container


@dataclass(frozen=True, slots=True)
class Container(NamedEntry):
    """An LXC container of the bench: its processes, control groups, lock file and directory."""

    kind: ClassVar[str] = "lxc"
    lxcpath: str

    @override
    def holds(self, other: UndoEntry) -> bool:
        return _makes(other, self.name)

    @override
    def undo(self) -> None:
        from switchmark.host.containers import lxc_remains

        lxc_remains.remove(self.name, Path(self.lxcpath))


@dataclass(frozen=True, slots=True)
class LxcPivot(UndoEntry):
    """The groups that LXC makes once in every hierarchy for moving processes, and keeps. They are
    ours to remove where there was none before; other people's containers make them anew when they
    need them."""

    kind: ClassVar[str] = "lxc-pivot"
    survives_boot: ClassVar[bool] = False

    @override
    def problem(self, session_id: str) -> str | None:
        return "lxc.pivot is there already" if self.existing() else None

    @staticmethod
    def existing() -> list[Path]:
        """The pivots that exist now."""
        from switchmark.host.kernel import cgroups

        return [group for base in cgroups.bases() if (group := base / "lxc.pivot").is_dir()]

    @override
    def undo(self) -> None:
        for group in self.existing():
            with suppress(OSError):  # somebody is in it, or it is gone
                group.rmdir()


@dataclass(frozen=True, slots=True)
class DockerObject(UndoEntry):
    """A container or image of the bench in a Docker daemon; `host` is empty for the user's daemon.

    The bench's own daemon may have ended already, and its objects with it."""

    kind: ClassVar[str] = "docker"
    object_type: str  # "container" or "image"
    name: str
    host: str

    @override
    def problem(self, session_id: str) -> str | None:
        return foreign_name(self.name, session_id)

    @override
    def holds(self, other: UndoEntry) -> bool:
        return self.object_type == "container" and _makes(other, self.name)

    @override
    def undo(self) -> None:
        from switchmark.host.containers import docker_client

        docker_client.remove(self.object_type, self.name, self.host)

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.object_type} {self.name}"


@dataclass(frozen=True, slots=True)
class Cgroup(NewPath):
    """An empty control group directory."""

    kind: ClassVar[str] = "cgroup"

    @override
    def undo(self) -> None:
        from switchmark.host.kernel import cgroups

        if Path(self.path).is_dir():
            cgroups.remove_tree(Path(self.path))


@dataclass(frozen=True, slots=True)
class CgroupController(UndoEntry):
    """A controller that was switched on for the groups below a group (version 2)."""

    kind: ClassVar[str] = "cgroup-controller"
    survives_boot: ClassVar[bool] = False
    path: str  # the file cgroup.subtree_control
    name: str

    @override
    def undo(self) -> None:
        file = Path(self.path)
        with suppress(FileNotFoundError):
            if self.name in file.read_text().split():
                file.write_text(f"-{self.name}")


@dataclass(frozen=True, slots=True)
class CgroupsNamed(NamedEntry):
    """Control groups of one name in every hierarchy, with those nested in them (the parents of
    a container engine's own groups)."""

    kind: ClassVar[str] = "cgroups-named"
    survives_boot: ClassVar[bool] = False

    @override
    def undo(self) -> None:
        from switchmark.host.kernel import cgroups

        cgroups.remove_named(self.name)
