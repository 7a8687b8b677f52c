"""The ledger of everything the bench has made on the machine and not yet undone.

One append-only JSON-lines file per session in the state directory. An entry is written
before its object is made; a strike is written after it is undone. Undoing is idempotent, so
an object that was never made does no harm. `clean.py` replays ledgers whose owner is dead.

    number = ledger.record(NetworkDevice("sm1a2b3cp0"))   # first this
    ...make the device...                               # then the deed
    ledger.undo(number)                                 # remove it and strike it out
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from switchmark.errors import SwitchmarkError
from switchmark.host.kernel import procfs
from switchmark.host.kernel.procfs import ProcessIdentity
from switchmark.host.state import not_ours
from switchmark.host.undo import entries
from switchmark.host.undo.entries import MarkedProcesses, UndoEntry

SUFFIX = ".ledger"
COMPACT_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that writes a ledger: enough to know whether it still lives."""

    session: str
    pid: int
    start_ticks: int
    boot_id: str
    command: str
    opened_at: str  # RFC 3339 UTC

    @classmethod
    def ourselves(cls, session: str) -> Owner:
        """This process."""
        identity = ProcessIdentity.of(os.getpid())
        assert identity is not None
        return cls(
            session=session,
            pid=identity.pid,
            start_ticks=identity.start_ticks,
            boot_id=procfs.boot_id(),
            command=" ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
            opened_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def alive(self) -> bool:
        """Return True if the owner still runs, in this boot."""
        identity = ProcessIdentity(self.pid, self.start_ticks)
        return self.boot_id == procfs.boot_id() and identity.alive()


@dataclass(frozen=True, slots=True)
class NumberedEntry:
    """An undo entry of the ledger, under its number."""

    number: int
    entry: UndoEntry


class Ledger:
    """An open ledger. Held under an exclusive file lock as long as its owner lives."""

    def __init__(self, path: Path, owner: Owner, fd: int, content: Content) -> None:
        """Use `create` or `adopt`."""
        self.path = path
        self.owner = owner
        self.session = owner.session
        self._fd = fd
        self._entries = dict(content.entries)
        self._unknown = content.unknown
        self._next = max(content.entries, default=0) + 1
        self._mutex = threading.RLock()
        self._compact_at = COMPACT_BYTES

    @classmethod
    def create(cls, directory: Path, session: str) -> Ledger:
        """Open a new ledger for this process. Raises FileExistsError when the id is taken, or when
        a cleaner removed the file before it was held."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{session}{SUFFIX}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink == 0:  # nobody would find what is written to it
            os.close(fd)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        ledger = cls(path, Owner.ourselves(session), fd, Content(None, {}, []))
        ledger._append({"v": 1, **asdict(ledger.owner)})
        return ledger

    @classmethod
    def adopt(cls, path: Path) -> Ledger | None:
        """Open the ledger of a dead owner to clean up after it; None while the owner (or
        another cleaner) lives, or when it is gone already."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        if problem := not_ours(os.fstat(fd)):
            os.close(fd)
            raise SwitchmarkError(
                f"{path}: {problem}",
                remedy="it is not trusted, and nothing in it is undone: remove it",
            )
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = read(path)
            if content.owner is None:  # killed between creating the file and its first line
                path.unlink(missing_ok=True)
            elif not content.owner.alive() and path.exists():
                return cls(path, content.owner, fd, content)
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(fd)
        return None

    def record(self, entry: UndoEntry) -> int:
        """Note what is about to be made; returns the number of its entry.

        Raises SwitchmarkError when it is not ours to make (it would be undone later)."""
        if problem := entry.problem(self.session):
            raise SwitchmarkError(f"{entry.kind}: {problem}")
        with self._mutex:
            number = self._next
            self._next += 1
            self._entries[number] = entry  # before its line, which may begin a file of all entries
            try:
                self._append({"made": number, **entries.to_json(entry)})
            except BaseException:
                self._entries.pop(number)
                raise
            return number

    @contextmanager
    def making(self, *made: UndoEntry) -> Iterator[list[int]]:
        """Note what is made in this context; gives the numbers. Where it fails all of it is undone
        at once, so that the same can be made again before the session ends."""
        with ExitStack() as undo:
            numbers: list[int] = []
            for entry in made:
                numbers.append(self.record(entry))
                undo.callback(self._give_up, numbers[-1])
            yield numbers
            undo.pop_all()

    def _give_up(self, number: int) -> None:
        """Undo an entry; one that cannot be undone stays, for the session's end."""
        with suppress(OSError, SwitchmarkError):
            self.undo(number)

    def strike(self, number: int) -> None:
        """Note that what was made is gone. Striking twice is fine."""
        with self._mutex:
            if self._entries.pop(number, None) is not None:
                self._append({"undone": number})

    def undo(self, number: int) -> None:
        """Undo an entry and strike it out, what it holds before it; undone already is fine. Raises
        OSError."""
        with self._mutex:
            entry = self._entries.get(number)
            if entry is None:
                return
            inner = [key for key, other in self._entries.items() if entry.holds(other)]
        for key in inner:  # an interrupted `clean` may have left them
            self.undo(key)
        entry.undo()
        self.strike(number)

    def outstanding(self) -> list[NumberedEntry]:
        """The entries that are made and not undone, in the order of making."""
        with self._mutex:
            return [NumberedEntry(number, entry) for number, entry in sorted(self._entries.items())]

    def undo_all(self, done: Callable[[UndoEntry], None] = lambda _: None) -> list[str]:
        """Undo everything, last first; returns one line for each entry that could not be undone.

        The session's processes are ended first, so that none of them (a container that is just
        starting) makes something anew meanwhile."""
        same_boot = self.owner.boot_id == procfs.boot_id()
        problems = [
            f"{line}: written by another version of switchmark, which has to clean it up"
            for line in self._unknown
        ]
        if same_boot:
            with suppress(OSError):  # raised again when the entry itself is undone
                MarkedProcesses(self.session).undo()
        for outstanding in reversed(self.outstanding()):
            try:
                if same_boot or outstanding.entry.survives_boot:
                    self.undo(outstanding.number)
                else:
                    self.strike(outstanding.number)
                done(outstanding.entry)
            except OSError as error:
                name = f"{outstanding.entry}: "
                problems.append(name + str(error).removeprefix(name))
        return problems

    def close(self) -> None:
        """Let go of the ledger; the file goes when nothing is outstanding."""
        with self._mutex:
            if self._fd < 0:
                return
            if not self._entries and not self._unknown:
                with suppress(OSError):  # left by an owner that was killed while it compacted
                    self._compacted.unlink(missing_ok=True)
                self.path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1

    def _append(self, line: dict[str, Any]) -> None:
        """Write a line by one call, so that it is there whole or not at all."""
        if self._fd < 0:
            raise SwitchmarkError(f"{self.path}: the session has ended, nothing may be made")
        text = json.dumps(line).encode() + b"\n"
        size = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, text)
            if written != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with suppress(OSError):  # half a line would take the next one with it
                os.ftruncate(self._fd, size)
            raise SwitchmarkError(
                f"{self.path}: cannot be written ({error.strerror}), so nothing may be made "
                "that would have to be undone",
                remedy="make room there",
            ) from error
        if size > self._compact_at:
            self._compact()

    def _compact(self) -> None:
        """Leave out what is undone: a campaign of many trials must not fill the state folder.

        The new file takes the old one's name at once, so that one of them is always there whole;
        where that cannot be done the old one goes on."""
        lines = [{"v": 1, **asdict(self.owner)}]
        lines += [{"made": e.number, **entries.to_json(e.entry)} for e in self.outstanding()]
        text = "".join(f"{one}\n" for one in [*map(json.dumps, lines), *self._unknown])
        fd = -1
        with suppress(OSError):
            self._compacted.unlink(missing_ok=True)
            fd = os.open(
                self._compacted, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )  # fmt: skip
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.write(fd, text.encode()) == len(text.encode()):
                self._compacted.replace(self.path)
                self._fd, fd = fd, self._fd
        if fd >= 0:
            os.close(fd)
        with suppress(OSError):
            self._compacted.unlink(missing_ok=True)
        self._compact_at = 2 * len(text) + COMPACT_BYTES

    @property
    def _compacted(self) -> Path:
        return self.path.with_suffix(".compacted")


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a ledger file: its owner, what is outstanding, and lines of kinds that this
    version does not know."""

    owner: Owner | None
    entries: dict[int, UndoEntry]
    unknown: list[str]


def read(path: Path) -> Content:
    """Read a ledger file without changing it. A truncated last line is ignored, since its change
    was not made yet. Raises FileNotFoundError."""
    content = Content(None, {}, [])
    for text in path.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if content.owner is None:
            content = Content(_owner(line), {}, [])
            continue
        match line:
            case {"made": int() as number}:
                try:
                    content.entries[number] = entries.from_json(
                        {key: value for key, value in line.items() if key != "made"}
                    )
                except (KeyError, TypeError, ValueError):
                    content.unknown.append(text)
            case {"undone": int() as number}:
                content.entries.pop(number, None)
            case _:
                content.unknown.append(text)
    return content


def _owner(line: Any) -> Owner | None:
    """The owner that the first line names; None where it names none of the right kinds."""
    try:
        owner = Owner(**{key: value for key, value in line.items() if key != "v"})
    except (TypeError, AttributeError):
        return None
    numbers, texts = (owner.pid, owner.start_ticks), (owner.session, owner.boot_id, owner.command)
    sound = all(isinstance(n, int) for n in numbers) and all(isinstance(t, str) for t in texts)
    return owner if sound else None
