"""An open network namespace: held by a descriptor, identified by its inode."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from switchmark.host.kernel import namespaces
from switchmark.host.kernel.netlink import refused, route_socket
from switchmark.host.kernel.procfs import ProcessIdentity
from switchmark.host.process_output import run_command

Result = TypeVar("Result")
OWN = "this host"
TIMEOUT_S = 10.0
DOCKER_NETNS = Path("/run/docker/netns")
MOST_NAMESPACES = 4096  # a bound for machines with very many containers


@dataclass(frozen=True, slots=True)
class NamespaceHandle:
    """A network namespace that stays open, also if its container ends."""

    fd: int
    inode: int
    label: str
    is_own: bool = False  # it is the namespace of this process, which needs not be entered

    @classmethod
    def open(cls, path: str | Path, label: str) -> NamespaceHandle:
        """Open a namespace by a path. Raises OSError."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        inode = os.fstat(fd).st_ino
        return cls(fd, inode, label, inode == Path("/proc/self/ns/net").stat().st_ino)

    @property
    def path(self) -> str:
        """The path of the open namespace in this process."""
        return f"/proc/self/fd/{self.fd}"

    def inside(self, action: Callable[[], Result]) -> Result:
        """Run an action inside, in a new thread. Raises its exceptions, or OSError."""
        return namespaces.inside(None if self.is_own else self.path, action)

    def output_of(self, args: Sequence[str]) -> str | None:
        """The output of a program that runs inside; None if it cannot run or fails."""

        def run() -> str | None:
            try:
                done = run_command(args, TIMEOUT_S)
            except (OSError, subprocess.TimeoutExpired):
                return None
            return done.stdout if done.returncode == 0 else None

        return self.inside(run)

    def number_of(self, other: NamespaceHandle) -> int | None:
        """The number by which devices in this namespace refer to the other one; None without one.

        Raises OSError."""

        def ask() -> int | None:
            with suppress(refused()), route_socket() as netlink:
                answer = netlink.get_netnsid(fd=other.fd)
                number = answer.get("nsid") if answer else None
                return number if isinstance(number, int) and number >= 0 else None
            return None

        return self.inside(ask)

    def close(self) -> None:
        """Close the descriptor."""
        with suppress(OSError):
            os.close(self.fd)


def own_namespace() -> NamespaceHandle:
    """The namespace of this process, which is the host for the bench."""
    return NamespaceHandle.open("/proc/thread-self/ns/net", OWN)


def namespace_inode_of(pid: int) -> int | None:
    """The inode of the namespace of a process; None if it has ended or belongs to another user."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    return None


def other_namespaces(known: Sequence[NamespaceHandle]) -> Iterator[NamespaceHandle]:
    """Open every other network namespace of this machine, each once: those with a name first."""
    inodes = {handle.inode for handle in known}
    for label, path in _paths():
        with suppress(OSError):
            if len(inodes) > MOST_NAMESPACES or path.stat().st_ino in inodes:
                continue
            handle = NamespaceHandle.open(path, label)
            inodes.add(handle.inode)
            yield handle


def _paths() -> Iterator[tuple[str, Path]]:
    for folder, word in ((namespaces.NETNS_DIR, "netns"), (DOCKER_NETNS, "docker sandbox")):
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                if path.is_mount():
                    yield f"{word} {path.name}", path
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            yield f"process {folder.name}", folder / "ns" / "net"


@dataclass(frozen=True, slots=True)
class HeldBy:
    """The process whose namespace is entered: by its PID and start time."""

    identity: ProcessIdentity

    def moved_to(self) -> int | None:
        """The inode of the namespace that the process is in now; None if it has ended."""
        return namespace_inode_of(self.identity.pid) if self.identity.alive() else None


def read_inside(handle: NamespaceHandle, path: str) -> str | None:
    """The text of a file below /proc/sys/net or /proc/thread-self/net, as seen inside; None if
    there is no such file."""

    def read() -> str | None:
        with suppress(OSError):
            return Path(path).read_text(errors="replace").strip()
        return None

    return handle.inside(partial(read))
