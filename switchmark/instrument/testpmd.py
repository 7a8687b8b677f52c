"""`testpmd`: DPDK's test application, a sender and a receiver.

`txonly` fills the port with frames of one flow, `rxonly` counts all received frames. The prompt of
each prints its port's counters (`show port stats`), several times in a run. The length of an
interval follows from testpmd's clock, by the rate since the last command.
(https://doc.dpdk.org/guides/testpmd_app_ug/)
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

from switchmark.instrument.support.base import COUNTS_ALONE, Abilities, Instrument, Job, Station
from switchmark.instrument.support.dpdk_ports import (
    eal_memory,
    fanout_group,
    port_device,
    start_in_another_group,
)
from switchmark.instrument.support.frame import flow_frame
from switchmark.instrument.support.polled_run import PolledRun
from switchmark.instrument.support.polling import Polled
from switchmark.instrument.support.program import ProgramEnd, find, version_of
from switchmark.instrument.support.reading import CountedInterval
from switchmark.instrument.support.udp import FCS
from switchmark.language.values import NS_PER_S
from switchmark.model.capabilities import Availability
from switchmark.model.io import Io
from switchmark.model.page_size import EITHER
from switchmark.model.ports import PortKind

PROGRAM = "dpdk-testpmd"
ASK_VERSION = ("-v", "--no-huge", "--no-pci", "--in-memory", "--no-telemetry", "-h")
SAYS_VERSION = r"DPDK (\d+\.[\w.~+-]+)"
MEMORY_MB = 64
SMALL_PAGES_MB = 96  # each buffer takes a small page
BUFFERS = 16_384
_HEADING = re.compile(r"#+ NIC statistics for port 0\s+#+")
_COUNTER = re.compile(r"\b([RT]X-[a-z]+|[RT]x-pps):\s*(\d{1,15})\b")


class TestpmdInstrument(Instrument):
    """Sender to receiver."""

    name = "testpmd"
    abilities = Abilities(
        description="DPDK's test application: txonly to rxonly, at the highest rate",
        ports={PortKind.VHOST_USER: Io.DPDK, PortKind.VETH: Io.DPDK},
        environments=("netns", "bare"),
        cannot_know=(*COUNTS_ALONE, "how often and how long it waited"),
        paces=False,
        largest_burst=512,
        largest_frame_bytes=1518,  # fits into one buffer on every port
        page_sizes=EITHER,
        memory_mb=MEMORY_MB,
        function_flows=1,
        linux_capabilities={
            PortKind.VHOST_USER: ("ipc_lock",),
            PortKind.VETH: ("ipc_lock", "net_admin", "net_raw"),
        },
        writes=(),
    )

    def availability(self) -> Availability:
        """Available if the program is installed."""
        return find(PROGRAM, "dpdk-dev", ASK_VERSION, SAYS_VERSION)

    def launch(self, job: Job) -> PolledRun:
        """Start both programs."""
        size, burst = job.trial.packet_size_bytes - FCS, job.trial.burst
        flow = flow_frame(job)
        sends = [
            "--forward-mode=txonly", f"--txpkts={size}", f"--burst={burst}",
            f"--eth-peer=0,{flow.destination_mac}",
            f"--tx-ip={flow.source},{flow.destination}",
            f"--tx-udp={flow.source_port},{flow.destination_port}",
        ]  # fmt: skip
        target = _Console("receiver", job, job.target, ["--forward-mode=rxonly"])
        source = start_in_another_group(target, lambda: _Console("sender", job, job.source, sends))
        version = version_of(PROGRAM, ASK_VERSION, SAYS_VERSION)
        return PolledRun(self.name, job, source, target, version)


class _Console(Polled):
    """One testpmd at its prompt, and its port's counters."""

    def __init__(self, role: str, job: Job, station: Station, options: list[str]) -> None:
        self._receives = role == "receiver"
        self._counter, self._rate = (
            ("RX-packets", "Rx-pps") if self._receives else ("TX-packets", "Tx-pps")
        )
        command = _command(job, station, options)
        spawned = station.spawn(command)
        super().__init__(ProgramEnd(f"testpmd {role}", station.node, command, spawned))
        self.fanout_group = fanout_group(spawned.pid, station)
        self._statistics: dict[str, int] = {}  # the last values
        self._counted: list[CountedInterval] = []  # times by CLOCK_MONOTONIC
        self._inside = False
        self._new: dict[str, int] = {}
        self._answered_ns = 0

    @property
    def frames(self) -> int:
        """See `Polled`."""
        return self._statistics[self._counter]

    def wait_ready(self, timeout_s: float) -> None:
        """See `Polled`."""
        self.read()
        self.wait_answer(timeout_s)
        if self._receives:
            self.program.order("start")

    def reset(self, timeout_s: float) -> None:
        """See `Polled`."""
        self.program.order("clear port stats 0")
        self.read()
        self.wait_answer(timeout_s)
        self._counted.clear()

    def start(self, duration_s: float, timeout_s: float) -> None:  # noqa: ARG002
        """See `Polled`; it has no timer."""
        self.program.order("start")
        self.last_ns = time.monotonic_ns()

    def stop(self, timeout_s: float) -> None:  # noqa: ARG002
        """See `Polled`."""
        self.program.order("stop")
        self.last_ns = time.monotonic_ns()

    def read(self) -> None:
        """See `Polled`."""
        self.waits = True
        self.program.order("show port stats 0")

    def take(self, timeout_s: float = 0.0) -> None:
        """See `Polled`."""
        while (line := self.program.next_line(timeout_s)) is not None:
            timeout_s = 0.0
            if _HEADING.search(line):
                self._inside, self._new = True, {}
            elif self._inside and "####" in line:
                self._answered()
            elif self._inside:
                self._new |= {name: int(value) for name, value in _COUNTER.findall(line)}

    def counts(self, begun_ns: int, lasted_ns: int) -> tuple[CountedInterval, ...]:  # noqa: ARG002
        """See `Polled`; returns all intervals so far."""
        return tuple(replace(one, t_ns=one.t_ns - begun_ns) for one in self._counted)

    def report(self) -> dict[str, Any]:
        """See `Polled`."""
        return dict(self._statistics)

    def _answered(self) -> None:
        """Add an interval from a complete answer: the counter grew since the last answer, at the
        printed rate."""
        self._inside = self.waits = False
        lacking = {self._counter, self._rate} - self._new.keys()
        if lacking:
            raise self.program.failed(f"printed statistics without {' and '.join(sorted(lacking))}")
        frames = self._new[self._counter] - self._statistics.get(self._counter, 0)
        rate_pps, now_ns = self._new[self._rate], time.monotonic_ns()
        has_rate = frames > 0 and rate_pps > 0
        passed_ns = now_ns - self._answered_ns
        duration_ns = round(frames * NS_PER_S / rate_pps) if has_rate else passed_ns
        if frames >= 0 and self._answered_ns:
            self._counted.append(CountedInterval(now_ns, duration_ns, frames))
        self._statistics, self._answered_ns = self._new, now_ns


def _command(job: Job, station: Station, options: list[str]) -> list[str]:
    """Return the command line; main thread and forwarding thread share the node's first core."""
    core = station.first_core
    return [
        "env", f"RUNTIME_DIRECTORY={job.folder}", "stdbuf", "-oL", PROGRAM,
        *eal_memory(station, SMALL_PAGES_MB if station.port.small_pages else MEMORY_MB), "--no-pci",
        "--no-telemetry", f"--file-prefix=tp-{station.node}", "--lcores", f"0@{core},1@{core}",
        f"--vdev={port_device(job, station)}", "--",
        "-i", *options, "--nb-cores=1", f"--total-num-mbufs={BUFFERS}", "--disable-link-check",
    ]  # fmt: skip
