"""Files, directories and mounts that the bench makes."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from switchmark.host.kernel import mounts
from switchmark.host.undo.entries.entry import NewPath, UndoEntry, foreign_name


@dataclass(frozen=True, slots=True)
class Directory(NewPath):
    """A directory of the bench with its content."""

    kind: ClassVar[str] = "directory"

    @override
    def undo(self) -> None:
        if Path(self.path).is_symlink():
            raise OSError(f"{self.path}: not removed, it has become a symbolic link")
        if mounted := mounts.mounts_below(self.path):
            # Deleting through a mount would destroy files that may belong to others.
            raise OSError(f"{self.path}: not removed, {mounted[0]} is still mounted in it")
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)


@dataclass(frozen=True, slots=True)
class File(NewPath):
    """A file, socket or pipe."""

    kind: ClassVar[str] = "file"

    @override
    def undo(self) -> None:
        with suppress(FileNotFoundError):
            Path(self.path).unlink()


@dataclass(frozen=True, slots=True)
class FilesNamed(UndoEntry):
    """Files in a shared directory whose names begin with a prefix that holds the session id
    (hugepage files of a DPDK program: `sm1a2b3cmap_0` in /dev/hugepages)."""

    kind: ClassVar[str] = "files-named"
    directory: str
    prefix: str

    @override
    def problem(self, session_id: str) -> str | None:
        return foreign_name(self.prefix, session_id)

    @override
    def undo(self) -> None:
        directory = Path(self.directory)
        if not directory.is_dir():
            return
        for path in directory.iterdir():
            if path.name.startswith(self.prefix) and not path.is_dir():
                path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LockFile(UndoEntry):
    """The file of a lock, which other benches may use too: it stays while one of them has the
    lock. `locks.take_removable_lock` gives up a file that was removed meanwhile."""

    kind: ClassVar[str] = "lock-file"
    path: str

    @override
    def problem(self, session_id: str) -> str | None:
        return None if self.path.endswith(".lock") else f"{self.path}: not the name of a lock"

    @override
    def undo(self) -> None:
        with suppress(FileNotFoundError, BlockingIOError):
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                Path(self.path).unlink()
            finally:
                os.close(fd)


@dataclass(frozen=True, slots=True)
class MountsBelow(NewPath):
    """All mounts that the bench's programs make in one of its directories."""

    kind: ClassVar[str] = "mounts-below"
    survives_boot: ClassVar[bool] = False

    @override
    def undo(self) -> None:
        for target in mounts.mounts_below(self.path):
            mounts.unmount(Path(target))
