"""A program of the user's as VNF: beside the engines, or alone in a guest."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from switchmark.host.cores.cpu_time import process_cpu_s
from switchmark.trial.cost.cpu import ApplicationCpu
from switchmark.trial.vnf_base import SpawnedVnf


@dataclass
class ProgramVnf(SpawnedVnf):
    """A program of the user's, given its two ports as arguments. It cannot say when it is ready;
    the first frames that arrive show it."""

    _looked: tuple[int, float] = field(default=(0, 0.0), init=False)  # when, and its CPU time then

    def look(self) -> int:
        """Take its CPU time; it counts no drops."""
        now_ns, used_s = time.monotonic_ns(), process_cpu_s(self.spawned.pid)
        then_ns, before_s = self._looked
        self.cpu = ApplicationCpu(now_ns - then_ns, round((used_s - before_s) * 1e9))
        self._looked = now_ns, used_s
        return 0


@dataclass
class GuestProgramVnf(ProgramVnf):
    """A program of the user's in a virtual machine, whose CPU time is the machine's."""

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the guest has set its ports up, and starts the program."""
        self.wait_guest(timeout_s, f"did not start {self.command[0]}")
