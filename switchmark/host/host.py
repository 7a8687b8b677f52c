"""The machine that trials run on, and the session that remembers what was made on it.

`Host` runs commands and spawns processes; arguments are lists, never shell strings. A `Session`
binds a host to a ledger on disk (`ledger.py`): everything the bench makes is written there *before*
it is made, and struck out after it is undone, so that the next start can clean up after a `kill
-9`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from switchmark.host.undo.ledger import Ledger
from switchmark.model.rights import Rights


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished command."""

    args: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str


class Spawned(Protocol):
    """A running process whose three standard streams are ours."""

    @property
    def pid(self) -> int:
        """The number of the process on this host."""
        ...

    def write_line(self, line: str) -> None:
        """Send a line to standard input. Raises SwitchmarkError when the process has ended."""
        ...

    def close_input(self) -> None:
        """Close standard input; the engine finishes cleanly at end of file. Idempotent."""
        ...

    def read_line(self, timeout_s: float) -> str | None:
        """The next line of standard output; None at end of file. Raises TimeoutError."""
        ...

    def poll(self) -> int | None:
        """The exit code (negative: the signal), or None while it runs."""
        ...

    def wait(self, timeout_s: float) -> int:
        """Wait for the end; returns the exit code. Raises TimeoutError."""
        ...

    def terminate(self, grace_s: float = 2.0) -> int:
        """Send SIGTERM, then SIGKILL after the grace; returns the exit code."""
        ...

    def stderr_tail(self) -> str:
        """The end of standard error (empty when it goes to a log file)."""
        ...


class Host(Protocol):
    """One machine. `LocalHost` is this one; one reached by SSH behaves alike."""

    name: str

    def run(
        self,
        args: Sequence[str],
        *,
        timeout_s: float = 30.0,
        check: bool = True,
        input_text: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command to its end. With `check`, a failure raises SwitchmarkError with the last
        lines of standard error."""
        ...

    def spawn(
        self,
        args: Sequence[str],
        *,
        cores: Sequence[int] | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        netns: str | None = None,
        rights: Rights | None = None,
        container: str = "",
    ) -> Spawned:
        """Start a process pinned to `cores` in its own session, inside netns if named.

        It has `rights` (None: those of the bench) and cannot gain others. With
        `log`, standard error goes to that file. The process is in the session's ledger, and carries
        the session's mark in its environment, as do all its children. `container`: the name of the
        container that the process makes; the ledger ends the process before it removes that
        container."""
        ...


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the bench on one host.

    `id` is short (6 hex digits) and begins every name we make (`sm<id>...`, at most 15
    characters for devices). `run_dir` is private to the session (sockets, logs) and goes
    away with it.
    """

    id: str
    host: Host
    ledger: Ledger
    run_dir: Path
