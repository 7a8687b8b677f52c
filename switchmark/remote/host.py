"""Proxies for another host and for its processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from switchmark.errors import SwitchmarkError
from switchmark.host.host import Completed
from switchmark.model.rights import Rights
from switchmark.remote.codec import to_plain
from switchmark.remote.contact import HostLost

if TYPE_CHECKING:
    from switchmark.remote.connection import Connection

T = TypeVar("T")


class RemoteHost:
    """A host that is reached through its agent; see `Host`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.name = connection.target.name

    def run(
        self,
        args: Sequence[str],
        *,
        timeout_s: float = 30.0,
        check: bool = True,
        input_text: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """See `Host`."""
        return self.connection.ask_for(
            Completed,
            "run",
            timeout_s,
            args=list(args),
            timeout_s=timeout_s,
            check=check,
            input_text=input_text,
            env=dict(env) if env else None,
        )

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
    ) -> RemoteProcess:
        """See `Host`. Raises SwitchmarkError for a log, which would lie on the other host."""
        if log is not None:
            raise SwitchmarkError(f"{args[0]}: no log file can be written on host {self.name}")
        process = self.connection.ask_for(
            dict[str, int],
            "spawn",
            args=list(args),
            cores=list(cores) if cores else None,
            env=dict(env) if env else None,
            netns=netns,
            rights=to_plain(rights),
            container=container,
        )
        return RemoteProcess(self.connection, process, args[0])


class RemoteProcess:
    """A process on another host, with its three standard streams."""

    def __init__(self, connection: Connection, process: dict[str, int], name: str) -> None:
        self.pid = process["pid"]  # on that host
        self._number = process["process"]
        self._connection = connection
        self._name = name
        self._output = connection.process(self._number)

    def write_line(self, line: str) -> None:
        """Send a line. Raises SwitchmarkError when the process has ended."""
        self._ask(object, "write_line", [line])

    def close_input(self) -> None:
        """Close standard input; on a lost host it is closed already."""
        with suppress(HostLost):
            self._ask(object, "close_input")

    def read_line(self, timeout_s: float) -> str | None:
        """The next line; None at the end. Raises TimeoutError, and HostLost."""
        line = self._output.lines.get(timeout_s)
        if line is None and self._lost:
            raise HostLost(self._lost)
        return line

    def poll(self) -> int | None:
        """The exit code; -1 if the host is lost, None while the process runs."""
        return -1 if self._lost else self._output.code

    def wait(self, timeout_s: float) -> int:
        """Wait for the end. Raises TimeoutError."""
        if not self._output.ended.wait(timeout_s):
            raise TimeoutError(f"{self._name}: still running after {timeout_s:g} s")
        return self._output.code if self._output.code is not None else -1

    def terminate(self, grace_s: float = 2.0) -> int:
        """Send SIGTERM, then SIGKILL; -1 on a lost host, where the agent ends everything."""
        if self._output.code is not None:
            return self._output.code
        with suppress(HostLost):
            return self._ask(int, "terminate", [grace_s], takes_s=grace_s + 5.0)
        return -1

    def stderr_tail(self) -> str:
        """The end of standard error; empty on a lost host."""
        with suppress(HostLost):
            return self._ask(str, "stderr_tail")
        return ""

    def _ask(
        self, kind: type[T], act: str, arguments: Sequence[Any] = (), takes_s: float = 0.0
    ) -> T:
        return self._connection.ask_for(
            kind, "process", takes_s, process=self._number, act=act, arguments=list(arguments)
        )

    @property
    def _lost(self) -> str | None:
        return self._connection.lost if self._output.code is None else None
