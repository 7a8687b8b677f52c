"""Pktgen-DPDK as one of the benchmark's senders. It is built beside the project, against the same
DPDK; `SWITCHMARK_PKTGEN` names its binary. Its screen is not read: its frames are counted by its
counterpart. Beside the thread that sends, two more poll without rest (command line and timer), so
without three separate cores it is compared by the CPU time of the sending thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from programs import Process, ProgramError, Reading

VARIABLE = "SWITCHMARK_PKTGEN"
READY = "Initialize Port 0"


def find_pktgen() -> Path | None:
    """The binary that the environment names; None: the environment names none. Raises
    ProgramError when it is not there."""
    named = os.environ.get(VARIABLE)
    if named and not os.access(named, os.X_OK):
        raise ProgramError(f"{VARIABLE}: {named} is not a program; build Pktgen or unset it")
    return Path(named) if named else None


class Pktgen:
    """Pktgen with one port and one sending core (its command line runs on the same core)."""

    def __init__(
        self, binary: Path, vdev: str, frame_size: int, burst: int, ring: int, core: int
    ) -> None:
        self._commands: Sequence[str] = (
            f"set 0 size {frame_size}",
            f"set 0 burst {burst}",
            "start all",
        )
        args = [str(binary), "--lcores", f"0@{core},1@{core}", "--no-pci", "--in-memory"]
        args += ["--single-file-segments", "--no-telemetry", "-m", "256", "--vdev", vdev]
        args += ["--", "-P", "-T", "-m", "1.0", f"--txd={ring}", f"--rxd={ring}"]
        self.process = Process(args, core)
        while READY not in self.process.line()[1]:
            pass

    def start(self) -> None:
        """Begin sending; it takes a moment."""
        for command in self._commands:
            self.process.write(command)

    def frames(self, counter: str) -> Reading:
        """Raise an error: the counterpart counts the frames."""
        raise ProgramError(f"pktgen: {counter} is counted by its counterpart")

    def finish(self) -> None:
        """End it."""
        self.process.write("stop all")
        self.process.write("quit")
