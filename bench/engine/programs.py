"""The two programs of the benchmark, driven alike: `switchmark-traffic` and `dpdk-testpmd`.

Each offers `frames()`: how many frames the program itself has counted so far, with the time
of that count, so that a rate is the difference of two readings of the program's own counters.
"""

from __future__ import annotations

import json
import math
import os
import queue
import re
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWER_TIMEOUT_S = 10.0
INTERVAL_S = 0.1
LAST_LINES = 3
WORKERS = ("lcore-worker", "rte-worker")  # how DPDK calls its polling threads
WHOLE = 0.05  # by how much the rounds of a sample may be longer or shorter than it


class ProgramError(Exception):
    """A program under test failed; the message contains the end of its standard error."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Frames counted by a program at a time (seconds, monotonic)."""

    time_s: float
    frames: int


class Process:
    """A child process pinned to one core, with its output as a queue of timed lines; with
    `words_on_errors` the lines of standard error are in it."""

    def __init__(self, args: Sequence[str], core: int, *, words_on_errors: bool = False) -> None:
        self._name = next(Path(arg).name for arg in args if arg not in ("stdbuf", "-oL"))
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in stop()
        self._child = subprocess.Popen(
            ["taskset", "-c", str(core), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if words_on_errors else self._errors,
            text=True,
            bufsize=1,
        )
        self._recent: deque[str] = deque(maxlen=LAST_LINES if words_on_errors else 0)
        self._lines: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._recent.append(line.strip())
            self._lines.put((time.monotonic(), line))
        self._lines.put((time.monotonic(), ""))

    def write(self, line: str) -> None:
        """One line to standard input."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise ProgramError(f"{self._name} ended: {self._last_words()}") from None

    def line(self) -> tuple[float, str]:
        """The next line of standard output and when it came."""
        try:
            when_s, line = self._lines.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            raise ProgramError(f"{self._name} is silent: {self._last_words()}") from None
        if line == "":
            raise ProgramError(f"{self._name} ended: {self._last_words()}")
        return when_s, line

    @property
    def pid(self) -> int:
        """Of the program (taskset has become it)."""
        return self._child.pid

    def waited_ns(self) -> int:
        """Time that its threads were ready to run and had no core, since they began."""
        return self._schedstat(1)

    def ran_ns(self) -> int:
        """CPU time of its threads since they began."""
        return self._schedstat(0)

    def worker_ran_ns(self) -> int:
        """Return the CPU time of the DPDK worker, otherwise of the first thread."""
        return self._schedstat(0, worker=True) or self._schedstat(0, first=True)

    def _schedstat(self, field: int, *, worker: bool = False, first: bool = False) -> int:
        total = 0
        for task in Path(f"/proc/{self._child.pid}/task").glob("*"):
            try:
                if worker and not (task / "comm").read_text().startswith(WORKERS):
                    continue
                if first and int(task.name) != self._child.pid:
                    continue
                total += int((task / "schedstat").read_text().split()[field])
            except (FileNotFoundError, ProcessLookupError):
                continue
        return total

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [*self._recent, *self._errors.read().strip().splitlines()]
        return " | ".join(lines[-LAST_LINES:]) or "(no message)"

    def kill(self) -> None:
        """End it at once; idempotent."""
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        if not self._errors.closed:
            self._errors.close()


class Traffic:
    """`switchmark-traffic` in one role."""

    def __init__(
        self, engine: Path, role: str, ports: Sequence[str], options: Sequence[str], core: int
    ) -> None:
        args = [str(engine), role, "--core", str(core), "--interval", str(INTERVAL_S), *options]
        for port in ports:
            args += ["--port", port]
        self.process = Process(args, core)
        self._frames = 0
        self.samples: list[dict[str, Any]] = []  # intervals, as they come
        self.ready = self._event("ready")

    def _event(self, name: str) -> dict[str, Any]:
        while True:
            event: dict[str, Any] = json.loads(self.process.line()[1])
            if event["event"] == "error":
                raise ProgramError(str(event["message"]))
            if event["event"] == "interval" and event["duration_ns"] > 0:
                self.samples.append(event)
            if event["event"] == name:
                return event

    def best_ns(self, frames_of: Callable[[dict[str, Any]], int]) -> float:
        """Of the rounds that moved frames, the ns a frame that one in twenty samples stay below;
        NaN without any. Samples that a round reached into or out of do not count."""
        ns_a_tick = 1e9 / self.ready["tsc_hz"]
        found = []
        for sample in self.samples:
            useful_ns = sample["useful_ticks"] * ns_a_tick
            told_ns = useful_ns + sample["idle_ticks"] * ns_a_tick
            if abs(told_ns / sample["duration_ns"] - 1) <= WHOLE and frames_of(sample) > 0:
                found.append(useful_ns / frames_of(sample))
        return sorted(found)[len(found) // 20] if found else math.nan

    def start(self) -> None:
        """Begin moving frames."""
        self.process.write("start")
        self._event("started")

    def frames(self, counter: str) -> Reading:
        """`counter` summed up to the end of the interval that is under way."""
        asked_ns = time.monotonic_ns()
        while True:
            event = self._event("interval")
            end_ns = event["t_ns"]
            self._frames += event[counter]
            if end_ns >= asked_ns:
                return Reading(end_ns / 1e9, self._frames)

    def result(self) -> dict[str, Any]:
        """The result of a trial that ends by itself. Raises when a frame came damaged."""
        result = self._event("result")
        if result["totals"]["rx_corrupt"]:
            raise ProgramError(f"{result['totals']['rx_corrupt']} frames arrived corrupt")
        return result

    def finish(self) -> dict[str, Any]:
        """End the trial, and with it the process; its result."""
        self.process.write("stop")
        return self.result()


class Testpmd:
    """`dpdk-testpmd` with one forwarding core (its main thread sleeps on the same core)."""

    __test__ = False  # not a pytest class
    first_bursts = 0

    def __init__(self, mode: str, vdevs: Sequence[str], options: Sequence[str], core: int) -> None:
        args = [
            "stdbuf",
            "-oL",
            "dpdk-testpmd",
            "--lcores",
            f"0@{core},1@{core}",
            "--no-pci",
            "--in-memory",
        ]
        args += ["--single-file-segments", "--no-telemetry", "-m", "128"]
        for vdev in vdevs:
            args += ["--vdev", vdev]
        args += ["--", "-i", f"--forward-mode={mode}", "--total-num-mbufs=8192", *options]
        self.process = Process(args, core)
        self._summary()

    def _summary(self) -> list[str]:
        """Return its port information (requested twice, to find the end of the first)."""
        self.process.write("show port summary all")
        self.process.write("show port summary all")
        lines: list[str] = []
        answers = 0
        while answers < 2:
            lines.append(self.process.line()[1])
            answers += "Number of available ports" in lines[-1]
        return lines

    def _wait_for_links(self) -> None:
        """Until every port has its peer."""
        end_s = time.monotonic() + ANSWER_TIMEOUT_S
        while any(re.search(r"net_\S+ +down", line) for line in self._summary()):
            if time.monotonic() > end_s:
                raise ProgramError("dpdk-testpmd: a port has no peer")
            time.sleep(0.02)

    def start(self) -> None:
        """Begin moving frames; in `io` mode, put some in to go round."""
        if self.first_bursts:
            self._wait_for_links()
        self.process.write(f"start tx_first {self.first_bursts}" if self.first_bursts else "start")

    def frames(self, counter: str) -> Reading:
        """RX-packets or TX-packets of all ports."""
        self.process.write("show port stats all")
        self.process.write("show port summary all")
        total, when_s = 0, 0.0
        while True:
            line_s, line = self.process.line()
            found = re.search(rf"{counter}:\s+(\d+)", line)
            if found:
                total, when_s = total + int(found.group(1)), when_s or line_s
            if "Number of available ports" in line:
                return Reading(when_s, total)

    def finish(self) -> None:
        """End it."""
        self.process.write("stop")
        self.process.write("quit")


Program = Traffic | Testpmd


def stolen_s() -> float:
    """Time that the hypervisor gave to others, all cores, since boot."""
    first = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(first[8]) / os.sysconf("SC_CLK_TCK")
