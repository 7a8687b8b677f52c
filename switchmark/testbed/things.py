"""The kinds of thing that the bench makes on a machine, each with the way to undo it.

Undoing is idempotent and tolerant: a thing that was never made, or is gone already, does
no harm. A thing that cannot be undone raises OSError with a line that says why.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from switchmark.testbed import mounts, procfs
from switchmark.testbed.procfs import ProcessIdentity

NETNS_DIR = Path("/run/netns")


@dataclass(frozen=True, slots=True)
class Thing:
    """Something made on the machine. Subclasses are plain values that go to JSON and back."""

    kind: ClassVar[str]
    survives_boot: ClassVar[bool] = True  # whether undoing makes sense after a reboot

    def problem(self, session_id: str) -> str | None:  # noqa: ARG002
        """Why this session must not make (and later undo) it; None when it may."""
        return None

    def undo(self) -> None:
        """Remove it from the machine."""
        raise NotImplementedError

    def __str__(self) -> str:
        values = (str(getattr(self, field.name)) for field in dataclasses.fields(self))
        return f"{self.kind} {' '.join(values)}"


def _foreign_name(name: str, session_id: str) -> str | None:
    """Names must carry the session id: then nothing of a user's can ever bear them."""
    prefix = f"sm{session_id}"
    return None if name.startswith(prefix) else f"{name}: a name we make begins with {prefix}"


def _exists_already(path: str) -> str | None:
    """What is there before we make it is not ours, and must not be undone by us."""
    return f"{path}: exists already, and is not ours" if os.path.lexists(path) else None


@dataclass(frozen=True, slots=True)
class Process(Thing):
    """A process. Its children carry the session's mark, so they need no entries."""

    kind: ClassVar[str] = "process"
    survives_boot: ClassVar[bool] = False
    pid: int
    start_ticks: int
    name: str = ""

    @classmethod
    def of(cls, pid: int, name: str = "") -> Process | None:
        """The running process; None when it has ended already."""
        identity = ProcessIdentity.of(pid)
        return cls(pid, identity.start_ticks, name) if identity else None

    @override
    def undo(self) -> None:
        procfs.end_processes([ProcessIdentity(self.pid, self.start_ticks)])


@dataclass(frozen=True, slots=True)
class MarkedProcesses(Thing):
    """Every process that carries the session's mark in its environment: also those that
    daemonised, and those started by a bench that was killed before it could note the pid."""

    kind: ClassVar[str] = "marked-processes"
    survives_boot: ClassVar[bool] = False
    session: str

    @override
    def undo(self) -> None:
        procfs.end_processes(procfs.marked(self.session))


@dataclass(frozen=True, slots=True)
class NetworkNamespace(Thing):
    """A named network namespace, as `ip netns` knows it. Devices inside go with it."""

    kind: ClassVar[str] = "netns"
    name: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _foreign_name(self.name, session_id)

    @override
    def undo(self) -> None:
        path = NETNS_DIR / self.name
        mounts.unmount(path)
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Link(Thing):
    """A network device in the root namespace (veth end, bridge, tap)."""

    kind: ClassVar[str] = "link"
    name: str

    @override
    def problem(self, session_id: str) -> str | None:
        if len(self.name) > 15:
            return f"{self.name}: longer than the 15 characters of a device name"
        return _foreign_name(self.name, session_id)

    @override
    def undo(self) -> None:
        from switchmark.testbed import netlink  # heavy, and seldom needed

        netlink.delete_link(self.name)


@dataclass(frozen=True, slots=True)
class LentDevice(Thing):
    """A network device of the host's own that is lent to a namespace of ours: it goes back, and
    is set up. (The kernel would destroy a virtual one with the namespace.)"""

    kind: ClassVar[str] = "lent-device"
    survives_boot: ClassVar[bool] = False
    name: str
    netns: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _foreign_name(self.netns, session_id)

    @override
    def undo(self) -> None:
        from switchmark.testbed import netlink

        netlink.fetch_back(self.name, self.netns)


@dataclass(frozen=True, slots=True)
class Mount(Thing):
    """A mount point (what is mounted is detached; the directory is another thing)."""

    kind: ClassVar[str] = "mount"
    survives_boot: ClassVar[bool] = False
    target: str

    @override
    def problem(self, session_id: str) -> str | None:
        return f"{self.target}: is a mount point already" if mounts.below(self.target) else None

    @override
    def undo(self) -> None:
        mounts.unmount(Path(self.target))


@dataclass(frozen=True, slots=True)
class Directory(Thing):
    """A directory of ours with everything in it."""

    kind: ClassVar[str] = "directory"
    path: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _exists_already(self.path)

    @override
    def undo(self) -> None:
        if Path(self.path).is_symlink():
            raise OSError(f"{self.path}: not removed, it has become a symbolic link")
        if held := mounts.below(self.path):
            # Deleting through a mount would destroy what is mounted, which is not ours.
            raise OSError(f"{self.path}: not removed, {held[0]} is still mounted in it")
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)


@dataclass(frozen=True, slots=True)
class File(Thing):
    """A file, socket or pipe."""

    kind: ClassVar[str] = "file"
    path: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _exists_already(self.path)

    @override
    def undo(self) -> None:
        with suppress(FileNotFoundError):
            Path(self.path).unlink()


@dataclass(frozen=True, slots=True)
class FilesNamed(Thing):
    """Files in a shared directory whose names begin with a prefix that holds the session id
    (hugepage files of a DPDK program: `sm1a2b3cmap_0` in /dev/hugepages)."""

    kind: ClassVar[str] = "files-named"
    directory: str
    prefix: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _foreign_name(self.prefix, session_id)

    @override
    def undo(self) -> None:
        directory = Path(self.directory)
        if not directory.is_dir():
            return
        for path in directory.iterdir():
            if path.name.startswith(self.prefix) and not path.is_dir():
                path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Cgroup(Thing):
    """An empty control group directory."""

    kind: ClassVar[str] = "cgroup"
    path: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _exists_already(self.path)

    @override
    def undo(self) -> None:
        from switchmark.testbed import cgroups

        if Path(self.path).is_dir():
            cgroups.remove_tree(Path(self.path))


@dataclass(frozen=True, slots=True)
class CgroupController(Thing):
    """A controller that was not on for the groups below one, and was switched on (version 2)."""

    kind: ClassVar[str] = "cgroup-controller"
    survives_boot: ClassVar[bool] = False
    path: str  # of cgroup.subtree_control
    name: str

    @override
    def undo(self) -> None:
        file = Path(self.path)
        with suppress(FileNotFoundError):
            if self.name in file.read_text().split():
                file.write_text(f"-{self.name}")


@dataclass(frozen=True, slots=True)
class CgroupsNamed(Thing):
    """Control groups of one name in every hierarchy, with those nested in them (the parents of
    a container engine's own groups)."""

    kind: ClassVar[str] = "cgroups-named"
    survives_boot: ClassVar[bool] = False
    name: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _foreign_name(self.name, session_id)

    @override
    def undo(self) -> None:
        from switchmark.testbed import cgroups

        cgroups.remove_named(self.name)


@dataclass(frozen=True, slots=True)
class MountsBelow(Thing):
    """Whatever a program of ours has mounted in a directory of ours."""

    kind: ClassVar[str] = "mounts-below"
    survives_boot: ClassVar[bool] = False
    path: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _exists_already(self.path)

    @override
    def undo(self) -> None:
        for target in mounts.below(self.path):
            mounts.unmount(Path(target))


@dataclass(frozen=True, slots=True)
class DockerThing(Thing):
    """A container or image of ours in a Docker daemon; `host` is empty for the user's daemon.

    A daemon of our own may be gone already, and everything in it with it."""

    kind: ClassVar[str] = "docker"
    survives_boot: ClassVar[bool] = True
    what: str  # container or image
    name: str
    host: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _foreign_name(self.name, session_id)

    @override
    def undo(self) -> None:
        from switchmark.testbed import docker_daemon

        docker_daemon.remove(self.what, self.name, self.host)


def chosen_of(text: str) -> str:
    """What a kernel setting says; of a list of words, the one in brackets."""
    words = text.split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    return chosen[0] if len(words) > 1 and chosen else text.strip()


@dataclass(frozen=True, slots=True)
class Setting(Thing):
    """A kernel setting in /proc/sys or /sys that had `old` and was given `new`.

    It is put back only while it still reads `new`: another's later change is left alone."""

    kind: ClassVar[str] = "setting"
    survives_boot: ClassVar[bool] = False
    path: str
    old: str
    new: str

    @override
    def undo(self) -> None:
        file = Path(self.path)
        with suppress(FileNotFoundError):
            if chosen_of(file.read_text()) == self.new:
                file.write_text(self.old + "\n")


@dataclass(frozen=True, slots=True)
class Hugepages(Thing):
    """A number of hugepages that was raised from `old` towards `new` (the kernel may have
    found fewer). Put back only while it lies between the two."""

    kind: ClassVar[str] = "hugepages"
    survives_boot: ClassVar[bool] = False
    path: str
    old: int
    new: int

    @override
    def undo(self) -> None:
        file = Path(self.path)
        with suppress(FileNotFoundError):
            if self.old < int(file.read_text()) <= self.new:
                file.write_text(f"{self.old}\n")


@dataclass(frozen=True, slots=True)
class Container(Thing):
    """An LXC container of ours: its processes, control groups, lock file and directory."""

    kind: ClassVar[str] = "lxc"
    name: str
    lxcpath: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _foreign_name(self.name, session_id)

    @override
    def undo(self) -> None:
        from switchmark.testbed import lxc_remains

        lxc_remains.remove(self.name, Path(self.lxcpath))


@dataclass(frozen=True, slots=True)
class ValeAttachment(Thing):
    """A device of a named namespace that is attached to a VALE switch there (`vale0:eth0`): the
    kernel does not let go of the device, nor of its namespace, before it is taken off."""

    kind: ClassVar[str] = "vale-attachment"
    survives_boot: ClassVar[bool] = False
    netns: str
    port: str

    @override
    def problem(self, session_id: str) -> str | None:
        return _foreign_name(self.netns, session_id)

    @override
    def undo(self) -> None:
        from switchmark.testbed import netlink, netmap

        with suppress(OSError):  # namespace, switch or device gone: it is off
            netlink.inside(self.netns, partial(netmap.detach, self.port))


KINDS: dict[str, type[Thing]] = {
    cls.kind: cls
    for cls in (
        Process,
        MarkedProcesses,
        NetworkNamespace,
        Link,
        LentDevice,
        Mount,
        Directory,
        File,
        FilesNamed,
        Cgroup,
        CgroupController,
        CgroupsNamed,
        MountsBelow,
        DockerThing,
        Setting,
        Hugepages,
        Container,
        ValeAttachment,
    )
}


def to_json(thing: Thing) -> dict[str, Any]:
    """The thing as a JSON object."""
    return {"kind": thing.kind, **dataclasses.asdict(thing)}


def from_json(document: dict[str, Any]) -> Thing:
    """The thing of a JSON object; raises KeyError or TypeError when it is none of ours."""
    values = dict(document)
    return KINDS[values.pop("kind")](**values)
