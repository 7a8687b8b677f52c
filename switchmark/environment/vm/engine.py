"""The engine in a guest, as if it ran on the host: its times are those of the host's clock.

A guest's CLOCK_MONOTONIC begins when it boots. The `counters` command, whose answer says when it
was carried out, compares the guest's clock with the host's before each trial: the time in the
answer lies between asking and answering. The times passed on are the host's; half the shortest of
those round trips is the bound of their error.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from switchmark.engine.plain_events import PlainCounters, parse_plain
from switchmark.host.host import Spawned

READINGS = 5
# Lines that a guest prints when it ends.
ENDED = re.compile(r"^guest: engine ended with exit code (\d+)", re.MULTILINE)
USUAL = re.compile(r"guest: engine ended|\[ *[\d.]+\] (reboot: |ACPI: PM: Preparing )")
OFF = "the guest was reset or switched off"  # it printed nothing, and QEMU ended with code 0
PANIC = "Kernel panic - not syncing"  # the following lines have the place, not the reason
ANSWER_S = 20.0  # sufficient for an emulated guest on a busy machine
MOST_PASSED = 10_000  # lines before an answer; between trials an engine prints none


class GuestEngine:
    """A QEMU process whose standard input and output are those of the engine in its guest."""

    def __init__(self, machine: Spawned) -> None:
        self.pid = machine.pid  # QEMU's process
        self.machine = machine
        self._passed: deque[str | None] = deque()  # read while another answer was waited for
        self._ahead_ns = 0  # lead of the host's clock over the guest's
        self.clock_error_ns: int | None = None  # at most; None: not compared yet

    def write_line(self, line: str) -> None:
        """Pass a command on to the engine; before a trial the clocks are compared."""
        if line.split(" ", 1)[0] == "start":
            self._compare_clocks()
            line = re.sub(r"\bat=(\d+)", lambda at: f"at={int(at[1]) - self._ahead_ns}", line)
        self.machine.write_line(line)

    def close_input(self) -> None:
        """Close the engine's standard input; the guest then switches itself off."""
        self.machine.close_input()

    def read_line(self, timeout_s: float) -> str | None:
        """The engine's next event, in the host's time."""
        line = self._passed.popleft() if self._passed else self.machine.read_line(timeout_s)
        if line is None:
            return None
        return re.sub(r'"t_ns":(\d+)', lambda at: f'"t_ns":{int(at[1]) + self._ahead_ns}', line)

    def poll(self) -> int | None:
        """The engine's exit code, or QEMU's where it was ended; None while the machine runs."""
        code = self.machine.poll()
        return None if code is None else self._of_engine(code)

    def wait(self, timeout_s: float) -> int:
        """Wait for the machine's end."""
        return self._of_engine(self.machine.wait(timeout_s))

    def terminate(self, grace_s: float = 2.0) -> int:
        """Switch the machine off."""
        return self._of_engine(self.machine.terminate(grace_s))

    def stderr_tail(self) -> str:
        """The complaints of QEMU, the guest's kernel and the engine."""
        text = self.machine.stderr_tail()
        lines = text.replace("\r", "").splitlines()
        ended = next((n for n, line in enumerate(lines, 1) if PANIC in line), len(lines))
        complaints = "\n".join(line for line in lines[:ended] if not USUAL.match(line))
        went_off = self.machine.poll() == 0 and not ENDED.search(text)
        return complaints or (OFF if went_off else "")

    def _of_engine(self, code: int) -> int:
        """The engine's exit code. QEMU ends well when its guest switches itself off, however the
        engine ended."""
        match = ENDED.search(self.machine.stderr_tail()) if code == 0 else None
        return int(match[1]) if match else code

    def _compare_clocks(self) -> None:
        """Compare the clocks some times, and keep the closest reading."""
        found = [reading for _ in range(READINGS) if (reading := self._reading()) is not None]
        if found:
            self.clock_error_ns, self._ahead_ns = min(found)

    def _reading(self) -> tuple[int, int] | None:
        """(bound of the error, how far the host's clock is ahead), ns; None: no answer, or too much
        that is none."""
        asked_ns = time.monotonic_ns()
        self.machine.write_line("counters")
        deadline = time.monotonic() + ANSWER_S
        while len(self._passed) < MOST_PASSED:
            try:
                line = self.machine.read_line(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                return None
            answered_ns = time.monotonic_ns()
            if line is None:
                self._passed.append(None)
                return None
            with suppress(ValueError):
                event = parse_plain(line)
                if isinstance(event, PlainCounters):
                    middle_ns = (asked_ns + answered_ns) // 2
                    return (answered_ns - asked_ns) // 2, middle_ns - event.t_ns
            self._passed.append(line)
        return None


def clock_error_us(engines: Iterable[GuestEngine]) -> str:
    """The largest bound of the error of these engines' times, for the record."""
    errors = [engine.clock_error_ns for engine in engines if engine.clock_error_ns is not None]
    return f"{max(errors) / 1e3:.0f}" if errors else "not compared"
