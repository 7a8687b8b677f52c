"""This machine as a host: running commands to their end, and spawning processes.

Every child gets a session (setsid) of its own. With `sched_autogroup` that also gives each
its own scheduling group of equal weight, so two applications that share a core share it
evenly, however many threads each has; there is nothing to equalise. Everything carries the
session's mark in its environment, by which `clean` finds it after a `kill -9`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from switchmark.errors import SwitchmarkError
from switchmark.host.host import Completed
from switchmark.host.kernel.procfs import KILLED_S, SESSION_VARIABLE
from switchmark.host.privileges.sandbox import sandbox_command
from switchmark.host.process_output import last_lines
from switchmark.host.pump import LineQueue, Pump, Tail
from switchmark.host.signals import call_uninterrupted
from switchmark.host.undo.entries import Process
from switchmark.host.undo.ledger import Ledger
from switchmark.model.rights import Rights

PRIVATE = 0o077  # the umask of all that is started: their files and sockets are nobody else's


class LocalHost:
    """The machine the bench runs on. Without a ledger only `run` may be used."""

    name = "local"

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger
        self._pump: Pump | None = None
        self._spawned: list[LocalProcess] = []
        self._setpriv = shutil.which("setpriv")

    def run(
        self,
        args: Sequence[str],
        *,
        timeout_s: float = 30.0,
        check: bool = True,
        input_text: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command to its end; it is killed with its process group when the time is over.

        Raises SwitchmarkError when the program is missing or too slow, and with `check` when it
        fails, with the last lines it wrote to standard error."""
        content = input_text.encode() if input_text is not None else None
        environment = self._environment(env)
        started: list[subprocess.Popen[bytes]] = []  # no signal comes between start and entry
        try:
            call_uninterrupted(
                lambda: started.append(_popen(args, environment, stdin_pipe=content is not None))
            )
            (process,) = started
            stdout, stderr = process.communicate(content, timeout_s)
        except BaseException as error:
            for process in started:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise SwitchmarkError(
                    f"{_short(args)}: not done within {timeout_s:g} s, killed"
                ) from None
            raise
        done = Completed(
            tuple(args),
            process.returncode,
            stdout.decode(errors="replace"),
            stderr.decode(errors="replace"),
        )
        if check and done.exit_code != 0:
            raise SwitchmarkError(
                f"{_short(args)}: exit code {done.exit_code}: {last_lines(done.stderr)}"
            )
        return done

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
    ) -> LocalProcess:
        """Start a process pinned to `cores` in its own session, inside netns if named, with
        `rights`.

        With `log`, standard error goes to that file (appended). For `container` see `Host`. A
        signal acts only after the ledger has the process. Raises SwitchmarkError."""
        if self._ledger is None:
            raise SwitchmarkError(f"{_short(args)}: processes are spawned in a session only")
        if self._pump is None:
            self._pump = Pump()
        ledger, pump = self._ledger, self._pump
        command = list(args)
        if rights is not None:
            command = sandbox_command(command, rights, env)
        if netns is not None:
            # Unlike nsenter, this also gives the process the namespace's own /sys.
            command = ["ip", "netns", "exec", netns, *command]
        if self._setpriv and threading.current_thread() is threading.main_thread():
            # The signal comes when the *thread* that forked ends: only the main thread will do.
            command = [self._setpriv, "--pdeathsig", "TERM", "--", *command]
        for ended in [process for process in self._spawned if process.poll() is not None]:
            with suppress(ValueError):  # another thread may have removed it
                self._spawned.remove(ended)  # frees its output, since sessions are long

        def start() -> LocalProcess:
            with _affinity(cores):
                popen = _popen(command, self._environment(env), stdin_pipe=True, log=log)
            process = LocalProcess(popen, args, ledger, pump, container)
            self._spawned.append(process)
            return process

        return call_uninterrupted(start)

    def close(self) -> None:
        """End every process that still runs, all at once, and stop reading their pipes. One that
        does not die does not keep the others: its entry in the ledger stays."""
        running = [process for process in self._spawned if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 2.0
        for process in running:
            with suppress(TimeoutError):  # reported when the entry is undone
                process.terminate(grace_s=max(0.0, deadline - time.monotonic()))
        self._spawned.clear()
        if self._pump is not None:
            self._pump.close()
            self._pump = None

    def _environment(self, extra: Mapping[str, str] | None) -> dict[str, str]:
        environment = {**os.environ, "LC_ALL": "C", **(extra or {})}
        if self._ledger is not None:
            environment[SESSION_VARIABLE] = self._ledger.session
        return environment


class LocalProcess:
    """A running child whose three standard streams are ours."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        args: Sequence[str],
        ledger: Ledger,
        pump: Pump,
        container: str,
    ) -> None:
        """Note the process in the ledger and begin to read its output."""
        self.pid = popen.pid
        self._popen = popen
        self._name = _short(args)
        self._ledger = ledger
        entry = Process.of(self.pid, Path(args[0]).name, container)
        self._entry = ledger.record(entry) if entry else None
        self._lines = LineQueue()
        self._tail = Tail()
        self._pump = pump
        assert popen.stdout is not None
        pump.add(os.dup(popen.stdout.fileno()), self._lines.take)
        popen.stdout.close()
        if popen.stderr is None:
            self._tail.take(b"")
        else:
            pump.add(os.dup(popen.stderr.fileno()), self._tail.take)
            popen.stderr.close()

    def write_line(self, line: str) -> None:
        """Send a line to standard input. Raises SwitchmarkError when the process has ended."""
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(line.encode() + b"\n")
            self._popen.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise SwitchmarkError(
                f"{self._name}: takes no more commands: {last_lines(self.stderr_tail())}"
            ) from None

    def close_input(self) -> None:
        """Close standard input, at whose end of file the engine ends cleanly."""
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):
            self._popen.stdin.close()

    def read_line(self, timeout_s: float) -> str | None:
        """The next line of standard output; None at end of file. Raises TimeoutError."""
        return self._lines.get(timeout_s)

    def poll(self) -> int | None:
        """The exit code (negative: the signal that ended it), or None while it runs."""
        code = self._popen.poll()
        if code is not None and self._entry is not None:
            self._ledger.strike(self._entry)
            self._entry = None
        return code

    def wait(self, timeout_s: float) -> int:
        """Wait for the end; returns the exit code. Raises TimeoutError."""
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self._name}: still running after {timeout_s:g} s") from None
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its group; one that has ended is fine."""
        if self._popen.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def terminate(self, grace_s: float = 2.0) -> int:
        """Send SIGTERM, then SIGKILL after the grace; returns the exit code."""
        self.send_signal(signal.SIGTERM)
        try:
            code = self.wait(grace_s)
        except TimeoutError:
            self.send_signal(signal.SIGKILL)
            code = self.wait(KILLED_S)
        self.close_input()
        return code

    def stderr_tail(self) -> str:
        """The last 64 KiB of standard error (empty when it goes to a log file)."""
        if self._popen.poll() is not None and not self._tail.wait_end(0.2):
            self._pump.settle()  # its children still hold the pipe
        return self._tail.text()


@contextmanager
def _affinity(cores: Sequence[int] | None) -> Iterator[None]:
    """Take on these cores for a moment: children inherit the affinity of the thread that forks."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        names = ",".join(map(str, cores))
        raise SwitchmarkError(
            f"cores {names}: cannot run there ({error.strerror})",
            remedy="`switchmark doctor` lists cores",
        ) from None
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _popen(
    args: Sequence[str], env: Mapping[str, str], *, stdin_pipe: bool, log: Path | None = None
) -> subprocess.Popen[bytes]:
    try:
        with log.open("ab") if log else nullcontext() as log_file:
            return subprocess.Popen(
                list(args),
                stdin=subprocess.PIPE if stdin_pipe else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log_file or subprocess.PIPE,
                env=env,
                start_new_session=True,
                umask=PRIVATE,
            )
    except (FileNotFoundError, PermissionError):
        # The kernel also refuses permission if the user may not read a folder of PATH.
        if shutil.which(args[0], os.F_OK, env.get("PATH")) is None:
            remedy = "is it installed?"
            raise SwitchmarkError(f"{args[0]}: no such program", remedy=remedy) from None
        raise SwitchmarkError(f"{args[0]}: not permitted to run it") from None


def _short(args: Sequence[str]) -> str:
    text = " ".join(args)
    return text if len(text) <= 120 else text[:117] + "..."
