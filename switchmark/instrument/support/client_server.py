"""Generators that consist of a server, which starts first, and a client, whose run is the trial."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from switchmark.errors import TrialFailed
from switchmark.instrument.support.base import Job
from switchmark.instrument.support.program import (
    ProgramEnd,
    close_all,
    held_program,
    running,
)

_SERVER_GRACE_S = 5.0  # for the server's output after the end of its client

ClientCommand = Callable[[float], list[str]]  # for a duration in seconds
R = TypeVar("R")  # Reading, or WorkloadReading


class ClientServer(Generic[R]):
    """A `Launched` of two programs. The server is started at once, the client by `begin`."""

    def __init__(
        self,
        name: str,
        job: Job,
        *,
        server: list[str],
        client: ClientCommand,
        listens: tuple[str, int],  # protocol and port of the server
        read: Callable[[ProgramEnd, ProgramEnd], R],  # reads the outputs of client and server
        server_ends: bool,  # True: the server ends by itself after its client
    ) -> None:
        self._name, self._job, self._client_command, self._read = name, job, client, read
        self._listens, self._server_ends = listens, server_ends
        self._server = ProgramEnd.start(f"{name} server", job.target, server)
        self._client: ProgramEnd | None = None

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the server listens."""
        self._server.wait_listening(*self._listens, timeout_s)

    def prepare(self, duration_s: float) -> None:
        """See `Preparable`."""
        self._client = held_program(
            f"{self._name} client", self._job.source, self._client_command(duration_s)
        )

    def begin(self, duration_s: float) -> None:
        """Start the client."""
        if self._client is None:
            self.prepare(duration_s)
        self._started().order("")

    def running(self) -> bool:
        """Return True while the client runs. Raises TrialFailed if the server has ended before
        it."""
        client = self._started()
        ended = client.gather(0.0)
        if not ended and not self._server_ends and self._server.spawned.poll() is not None:
            raise self._server.failed("ended in mid-run")
        return not ended

    def finish(self, timeout_s: float) -> R:
        """Read the counts of both after the server has also ended."""
        deadline = time.monotonic() + timeout_s
        client = self._started()
        client.wait_end(timeout_s)
        if not self._server_ends:
            self._server.spawned.terminate(grace_s=_SERVER_GRACE_S)
            self._server.gather(_SERVER_GRACE_S)
        else:
            self._server.wait_end(max(_SERVER_GRACE_S, deadline - time.monotonic()))
        return self._read(client, self._server)

    def process_ids(self) -> Sequence[int]:
        """Return the processes of client and server while they run."""
        return running(self._server, self._client)

    def client_ids(self) -> Sequence[int]:
        """Return the process of the client while it runs."""
        return running(self._client)

    def server_ids(self) -> Sequence[int]:
        """Return the process of the server while it runs."""
        return running(self._server)

    def close(self) -> None:
        """End both."""
        close_all(self._client, self._server)

    def _started(self) -> ProgramEnd:
        if self._client is None:
            raise TrialFailed(f"{self._name}: its client was not started")
        return self._client
