"""A program of the user's as VNF: beside the engines, or alone in a guest."""

from __future__ import annotations

import time
from dataclasses import dataclass

from switchmark.results.record import VnfRun
from switchmark.testbed.cores.cpu_time import process_cpu_s
from switchmark.testbed.last_words import NOTHING, last_line
from switchmark.trial.cost.cpu import ApplicationCpu
from switchmark.trial.vnf_base import SpawnedVnf, VnfCounters


@dataclass
class ProgramVnf(SpawnedVnf):
    """A program of the user's, given its two ports as arguments."""

    command: list[str]
    cpu: ApplicationCpu | None = None
    _looked: tuple[int, float] = (0, 0.0)  # when, and its CPU time then

    def wait_ready(self, timeout_s: float) -> None:
        """Return at once: a program cannot say when it is ready; the first frames that arrive show
        it."""

    def counters(self) -> VnfCounters:
        """No counters; its CPU time is read instead."""
        now_ns, used_s = time.monotonic_ns(), process_cpu_s(self.spawned.pid)
        then_ns, before_s = self._looked
        self.cpu = ApplicationCpu(now_ns - then_ns, round((used_s - before_s) * 1e9))
        self._looked = now_ns, used_s
        return VnfCounters()

    def died(self) -> str | None:
        """Its exit code and last words, if it has ended."""
        code = self.spawned.poll()
        if code is None:
            return None
        words = last_line(self.spawned.stderr_tail(), NOTHING)
        return f"VNF {self.node} ({self.command[0]}) ended with exit code {code}: {words}"

    def as_run(self) -> VnfRun:
        """The command line that was run."""
        return VnfRun(node=self.node, pair=self.pair, kind="program", command=self.command)


@dataclass
class GuestProgramVnf(ProgramVnf):
    """A program of the user's in a virtual machine, whose CPU time is the machine's."""

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the guest has set its ports up, and starts the program."""
        self.wait_guest(timeout_s, f"did not start {self.command[0]}")
