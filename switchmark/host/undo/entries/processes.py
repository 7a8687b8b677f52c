"""Processes that the bench starts, and how they are ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from switchmark.host.kernel import procfs
from switchmark.host.kernel.procfs import ProcessIdentity
from switchmark.host.undo.entries.entry import UndoEntry


@dataclass(frozen=True, slots=True)
class Process(UndoEntry):
    """A process. Its children carry the session's mark, so they need no entries."""

    kind: ClassVar[str] = "process"
    survives_boot: ClassVar[bool] = False
    pid: int
    start_ticks: int
    name: str = ""
    container: str = ""  # the name of the container that it makes

    @classmethod
    def of(cls, pid: int, name: str = "", container: str = "") -> Process | None:
        """The running process; None when it has ended already."""
        identity = ProcessIdentity.of(pid)
        return cls(pid, identity.start_ticks, name, container) if identity else None

    @override
    def undo(self) -> None:
        procfs.end_processes([ProcessIdentity(self.pid, self.start_ticks)])


@dataclass(frozen=True, slots=True)
class MarkedProcesses(UndoEntry):
    """Every process that carries the session's mark in its environment: also those that
    daemonised, and those started by a bench that was killed before it could note the pid."""

    kind: ClassVar[str] = "marked-processes"
    survives_boot: ClassVar[bool] = False
    session: str

    @override
    def undo(self) -> None:
        while found := procfs.session_processes(
            self.session
        ):  # one may have forked while it was looked for
            procfs.end_processes(found)
