"""A client of a server that another project wrote: both are started, and the client is the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from switchmark.errors import TrialFailed
from switchmark.instrument.support.base import Job
from switchmark.instrument.support.program import (
    ProgramEnd,
    close_all,
    held_program,
    running,
)
from switchmark.instrument.support.workload import ApplicationServer, WorkloadReading


class ServedClient:
    """A `LaunchedWorkload` of such a server and one client."""

    def __init__(
        self,
        name: str,
        job: Job,
        server: ApplicationServer,
        command: Callable[[float], list[str]],  # for a duration in seconds
        # Reads the output of the client, which ran for a time in seconds.
        read: Callable[[ProgramEnd, float], WorkloadReading],
        *,
        ends: bool = True,  # by itself, after its duration; otherwise it is ended then
    ) -> None:
        self._name, self._job, self._server = name, job, server
        self._command, self._read, self._ends = command, read, ends
        self._client: ProgramEnd | None = None
        self._begun_s = self._until_s = self._ran_s = 0.0

    def wait_ready(self, timeout_s: float) -> None:
        """Return once the server answers."""
        self._server.wait_ready(timeout_s)

    def prepare(self, duration_s: float) -> None:
        """See `Preparable`."""
        self._client = held_program(
            f"{self._name} client", self._job.source, self._command(duration_s)
        )

    def begin(self, duration_s: float) -> None:
        """Start the client."""
        if self._client is None:
            self.prepare(duration_s)
        self._started().order("")
        self._begun_s = time.monotonic()
        self._until_s = self._begun_s + duration_s

    def running(self) -> bool:
        """Return True while the client runs. Raises TrialFailed if a program has ended early."""
        self._server.check()
        client = self._started()
        if client.gather(0.0):
            if not self._ends:
                raise client.failed("ended before its time")
            return False
        if self._ends or time.monotonic() < self._until_s:
            return True
        self._ran_s = time.monotonic() - self._begun_s
        client.close()
        return False

    def finish(self, timeout_s: float) -> WorkloadReading:
        """Return the counts of the client, which has ended."""
        client = self._started()
        if self._ends:
            client.wait_end(timeout_s)
            self._ran_s = time.monotonic() - self._begun_s
        else:
            client.gather(timeout_s)
        return self._read(client, self._ran_s)

    def client_ids(self) -> Sequence[int]:
        """Return the process of the client while it runs."""
        return running(self._client)

    def server_ids(self) -> Sequence[int]:
        """Return the processes of the server while they run."""
        return self._server.process_ids()

    def close(self) -> None:
        """End both."""
        close_all(self._client)
        self._server.close()

    def _started(self) -> ProgramEnd:
        if self._client is None:
            raise TrialFailed(f"{self._name}: its client was not started")
        return self._client
