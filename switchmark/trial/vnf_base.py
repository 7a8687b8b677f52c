"""What every VNF does, and what those have in common that are processes of the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from switchmark.errors import TrialFailed
from switchmark.results.record import VnfRun
from switchmark.testbed.host import Spawned
from switchmark.testbed.last_words import NOTHING, last_line
from switchmark.trial.cost.cpu import ApplicationCpu


class Vnf(Protocol):
    """A running VNF with two ports."""

    node: str
    cpu: ApplicationCpu | None  # what it used between the last two looks

    def wait_ready(self, timeout_s: float) -> None:
        """Return when it forwards, or will as soon as its ports' peers are there."""
        ...

    def look(self) -> int:
        """Take its CPU time, and the frames that it reports as dropped since its start; only while
        no traffic runs."""
        ...

    def died(self) -> str | None:
        """How it ended, in one line; None while it runs."""
        ...

    def as_run(self) -> VnfRun:
        """What the record says of it."""
        ...

    def request_exit(self) -> None:
        """Ask it to end, without waiting for it."""
        ...

    def close(self) -> None:
        """End it. Idempotent."""
        ...


@dataclass
class ForeignVnf:
    """A VNF that is not our engine: it has no counters of its own."""

    kind: ClassVar[str]
    node: str
    pair: int
    command: list[str]
    cpu: ApplicationCpu | None = field(default=None, init=False)

    def look(self) -> int:
        """No drops, since it counts none."""
        return 0

    def as_run(self) -> VnfRun:
        """The command line that was run, or the lines that configured it."""
        return VnfRun(node=self.node, pair=self.pair, kind=self.kind, command=self.command)


@dataclass
class SpawnedVnf(ForeignVnf):
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
