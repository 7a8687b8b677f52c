"""One forwarder process of the engine (`basicfwd`, `af_packet`), and the reports of its ports."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from switchmark.engine.plain_events import (
    PlainEvent,
    PlainInterval,
    PlainPort,
    PlainReady,
    parse_plain,
)
from switchmark.errors import SwitchmarkError
from switchmark.host.host import Spawned
from switchmark.host.process_output import last_lines
from switchmark.model.ports import PortCounters
from switchmark.switch.support.ports import how_it_ended

POLL_S = 0.005  # between checks for a requested report


def _sum(so_far: PortCounters, port: PlainPort) -> PortCounters:
    return PortCounters(
        so_far.rx_frames + port.rx_frames,
        so_far.tx_frames + port.tx_offered,
        so_far.rx_dropped + port.rx_socket_drops,
        so_far.tx_dropped + port.tx_dropped,
    )


class Pair:
    """One forwarder process between two ports; a thread adds up its reports."""

    def __init__(self, process: Spawned, sockets: tuple[str, str]) -> None:
        self.process = process
        self.sockets = sockets
        self.ready: PlainReady | None = None
        self.up = False
        self.counted_until_ns = 0
        self._totals = [PortCounters(0, 0, 0, 0) for _ in "AB"]
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                line = self.process.read_line(timeout_s=1.0)
            except TimeoutError:
                continue
            if line is None:
                return
            with suppress(ValueError):  # a process without readable reports is detected later
                self._take(parse_plain(line))

    def _take(self, event: PlainEvent | None) -> None:
        match event:
            case PlainReady():
                self.ready = event
            case PlainInterval(t_ns, ports):
                with self._news:
                    self.up = all(port.up for port in ports)
                    self._totals = list(map(_sum, self._totals, ports))
                    self.counted_until_ns = t_ns
                    self._news.notify_all()

    def ask(self) -> None:
        """Request a report of the process now. A process that has ended is detected later."""
        with suppress(SwitchmarkError):
            self.process.write_line("interval")

    def wait_report(self, after_ns: int, timeout_s: float) -> bool:
        """Wait for a report of `after_ns` (CLOCK_MONOTONIC) or later; return True if it came."""
        with self._news:
            return self._news.wait_for(lambda: self.counted_until_ns >= after_ns, timeout_s)

    def counters(self) -> list[PortCounters]:
        """Return the counters of both ports so far."""
        with self._news:
            return list(self._totals)

    def death(self) -> str:
        """Return how the process ended, with the end of its standard error, on one line."""
        ending = how_it_ended(self.process.poll(), last_lines(self.process.stderr_tail()))
        return f"forwarder (pid {self.process.pid}) {ending}"


def ask(pairs: Sequence[Pair]) -> int:
    """Request a report of all these processes; return the time of the request (CLOCK_MONOTONIC
    ns)."""
    now_ns = time.monotonic_ns()
    for pair in pairs:
        pair.ask()
    return now_ns


def report_soon(pairs: Sequence[Pair], after_ns: int) -> bool:
    """Return True if all have reported their state at `after_ns`, or do it within `POLL_S`."""
    deadline = time.monotonic() + POLL_S
    return all(p.wait_report(after_ns, max(0.0, deadline - time.monotonic())) for p in pairs)
