"""Helpers for tests of the engine's DPDK ports: the engine as a process with timed events, and a
search for its leftovers on the machine."""

from __future__ import annotations

import functools
import json
import os
import queue
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NoReturn, ParamSpec

import pytest

from switchmark.engine import binary as engine_binary
from switchmark.errors import UnavailableError
from tests.integration.waiting import DEADLINE_S

P = ParamSpec("P")
OTHER_BACKENDS = ("raw:", "udp:", "null:")
BUSY_SHARE = 0.1  # CPU time of other processes, as a share of one core
ATTEMPTS, CALM_FAILURES = 6, 2
TERMINATE_S = 5.0
ROOT = Path(__file__).resolve().parents[2]
MAC_A, MAC_B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
TO_B = ("--src-mac", MAC_A, "--dst-mac", MAC_B)
TO_A = ("--src-mac", MAC_B, "--dst-mac", MAC_A)


@contextmanager
def veth_pair(near: str, far: str) -> Iterator[None]:
    """A veth pair with these names that is up and on which the kernel sends no frames."""
    # DPDK names a packet fanout by the lower 16 bits of process number XOR interface index, and the
    # kernel refuses equal names on two interfaces. Consecutive numbers of both would often be
    # equal.
    add = f"ip link add {near} index {1 << 30} type veth peer name {far} index {1 << 30 | 1 << 15}"
    subprocess.run(add.split(), check=True, timeout=30)
    try:
        for device in (near, far):
            subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"], check=False)
            subprocess.run(["ip", "link", "set", device, "up"], check=True, timeout=30)
        yield
    finally:
        subprocess.run(["ip", "link", "del", near], check=False, timeout=30)


def find_engine() -> Path | None:
    """Return the engine that the bench itself would run."""
    try:
        return engine_binary.find_engine()
    except UnavailableError:
        return None


def hugepages_free() -> int:
    """Return the number of free hugepages of the default size."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("HugePages_Free:"):
            return int(line.split()[1])
    return 0


# Requirements of every test of DPDK ports.
needs_dpdk = (
    pytest.mark.skipif(find_engine() is None, reason="switchmark-traffic is not built"),
    pytest.mark.skipif(hugepages_free() < 192, reason="fewer than 192 free hugepages of 2 MB"),
)


def litter() -> set[str]:
    """Return the files that DPDK left behind for engines of these tests."""
    names = {f"switchmark-{pid}" for pid in Engine.pids}
    folders = [Path("/dev/hugepages"), Path("/dev/shm"), Path("/var/run/dpdk")]
    return {
        str(path)
        for folder in folders
        if folder.is_dir()
        for path in folder.iterdir()
        if any(name in path.name for name in names)
    }


def cpu_s_of_others() -> float:
    """Return the CPU time (and steal) of all processes except this one and its finished
    children."""
    fields = [int(f) for f in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _wait, irq, softirq, steal = fields
    busy_s = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        busy_s -= usage.ru_utime + usage.ru_stime
    return busy_s


def unless_disturbed(test: Callable[P, None]) -> Callable[P, None]:
    """Repeat a test of exact counts that fails while other programs use the cores.

    After two failures on an idle machine the test fails. After other failures it is repeated, and
    in the end skipped with the reason. A host that moves virtual cores is not recognised."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        calm = 0
        for _ in range(ATTEMPTS):
            before_s, began_s = cpu_s_of_others(), time.monotonic()
            try:
                return test(*args, **kwargs)
            except (AssertionError, queue.Empty) as failure:
                share = (cpu_s_of_others() - before_s) / (time.monotonic() - began_s)
                calm += share < BUSY_SHARE
                if calm == CALM_FAILURES:
                    raise
                last = f"others used {share:.1f} cores meanwhile; {failure}"
            for left in [Path(str(value)) for value in kwargs.values()]:
                if left.is_socket():
                    left.unlink()
        pytest.skip(f"this machine is too busy for exact counts: {last}")

    return run


class Engine:
    """`switchmark-traffic` with its events as a queue. Use as a context manager."""

    pids: ClassVar[list[int]] = []

    def __init__(self, role: str, ports: Sequence[str], *options: str, core: int | str) -> None:
        binary = find_engine()
        assert binary is not None
        args = [str(binary), role, "--core", str(core), *options]
        for port in ports:
            args += ["--port", port if port.startswith(OTHER_BACKENDS) else f"dpdk:{port}"]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        self.began_s = time.monotonic()
        self.child = subprocess.Popen(
            args,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
        )
        self.pids.append(self.child.pid)
        self._events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.terminate()  # so that it takes its socket away
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(timeout=TERMINATE_S)
            self.child.kill()
        self.child.wait()
        self._errors.close()

    def next_event(self, timeout_s: float = DEADLINE_S, awaited: str = "") -> dict[str, Any]:
        """Return the next event."""
        event = self._events.get(timeout=max(0.01, timeout_s))
        if event is None:
            self._explain(f"before {awaited or 'another event'}")
        assert event is not None
        return event

    def event(self, name: str, timeout_s: float = DEADLINE_S) -> dict[str, Any]:
        """Return the next event of this name and ignore others."""
        end_s = time.monotonic() + timeout_s
        while True:
            event = self.next_event(end_s - time.monotonic(), name)
            assert name == "error" or event["event"] != "error", event
            if event["event"] == name:
                return event

    def say(self, line: str, *, unless_ended: bool = False) -> None:
        """Send a command to the engine, which must be running unless `unless_ended`."""
        assert self.child.stdin is not None
        try:
            os.write(self.child.stdin.fileno(), f"{line}\n".encode())  # unbuffered
        except BrokenPipeError:
            if not unless_ended:
                self._explain(f"before `{line}`")

    def _explain(self, when: str) -> NoReturn:
        """Skip or fail the test, with the reason why the engine ended."""
        self.child.wait()
        if "writes beyond its ring" in self.errors():
            pytest.skip(self.errors().strip())  # this build's DPDK has no such port
        pytest.fail(f"ended {when}: {self.errors()}")

    def start(self, *overrides: str) -> None:
        """Start a trial and wait until it runs."""
        self.say(" ".join(["start", *overrides]))
        self.event("started")

    def result(self) -> dict[str, Any]:
        """Return the result of a trial that ends by itself."""
        return self.event("result")

    def stop_after(self, frames: int, timeout_s: float = DEADLINE_S) -> dict[str, Any]:
        """End the trial after so many frames or at the timeout; return its result.

        It needs a short --interval."""
        end_s = time.monotonic() + timeout_s
        while frames > 0 and time.monotonic() < end_s:
            frames -= self.event("interval")["rx_frames"]
        return self.stop()

    def stop(self) -> dict[str, Any]:
        """End the trial; return its result."""
        self.say("stop")
        return self.result()

    def leave(self) -> int:
        """Close the engine's input; return the exit code."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        return self.child.wait(timeout=30)

    def kill(self) -> None:
        """Kill the engine with SIGKILL."""
        self.child.send_signal(signal.SIGKILL)
        self.child.wait(timeout=30)

    def errors(self) -> str:
        """Return the standard error so far."""
        self._errors.seek(0)
        return self._errors.read()
