"""What every VNF does, and what those have in common that are processes of the host."""

from __future__ import annotations

from dataclasses import dataclass, field

from switchmark.errors import TrialFailed
from switchmark.host.host import Spawned
from switchmark.host.process_output import NOTHING, last_line
from switchmark.record import VnfRun
from switchmark.trial.cost.cpu import ApplicationCpu


@dataclass
class Vnf:
    """A running VNF with two ports; by itself one without a process, that counts nothing."""

    node: str
    pair: int
    kind: str  # as the record names it
    command: list[str]  # as it was run, or the lines that configured it
    cpu: ApplicationCpu | None = field(default=None, init=False)  # between the last two looks

    def wait_ready(self, timeout_s: float) -> None:
        """Return when it forwards, or will as soon as its ports' peers are there."""

    def look(self) -> int:
        """Take its CPU time, and the frames that it reports as dropped since its start; only while
        no traffic runs."""
        return 0

    def died(self) -> str | None:
        """How it ended, in one line; None while it runs."""
        return None

    def as_run(self) -> VnfRun:
        """What the record says of it."""
        return VnfRun(node=self.node, pair=self.pair, kind=self.kind, command=self.command)

    def request_exit(self) -> None:
        """Ask it to end, without waiting for it."""

    def close(self) -> None:
        """End it. Idempotent."""


@dataclass
class SpawnedVnf(Vnf):
    """A VNF that is a program of the host's, such as a virtual machine."""

    spawned: Spawned

    def wait_guest(self, timeout_s: float, else_it: str) -> None:
        """Wait for the line that a guest prints when its ports are set up. Raises TrialFailed."""
        try:
            line = self.spawned.read_line(timeout_s)
        except TimeoutError:
            line = None
        if line is None:
            words = last_line(self.spawned.stderr_tail(), NOTHING)
            raise TrialFailed(f"VNF {self.node}: its guest {else_it}: {words}")

    def died(self) -> str | None:
        """Its exit code and last words, if it has ended."""
        code = self.spawned.poll()
        if code is None:
            return None
        words = last_line(self.spawned.stderr_tail(), NOTHING)
        return f"VNF {self.node} ({self.command[0]}) ended with exit code {code}: {words}"

    def request_exit(self) -> None:
        """Close its input, at which machines and many filters end."""
        if self.spawned.poll() is None:
            self.spawned.close_input()

    def close(self) -> None:
        """End it, first by SIGTERM."""
        self.spawned.terminate(grace_s=1.0)
