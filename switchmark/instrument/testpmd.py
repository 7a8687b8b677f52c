"""`testpmd`: DPDK's own test application, one that only sends and one that only receives.

`txonly` fills the port with frames of one flow, `rxonly` counts everything that comes. The prompt
of each gives its port's counters (`show port stats`), several times in a run; the length of an
interval follows from testpmd's own clock, as a rate since it was last asked.
(https://doc.dpdk.org/guides/testpmd_app_ug/)
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.instrument.support.base import Abilities, Job, Station
from switchmark.instrument.support.dpdk_ports import (
    fanout_group,
    no_hugepages,
    port_device,
    start_in_another_group,
)
from switchmark.instrument.support.polling import final_count, wait_answer
from switchmark.instrument.support.program import ProgramEnd, find, version_of
from switchmark.instrument.support.reading import CountedInterval, EndReading, Reading
from switchmark.instrument.support.udp import FCS, UDP_PORT, address
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Availability
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.ports import PortKind

PROGRAM = "dpdk-testpmd"
ASK_VERSION = ("-v", "--no-huge", "--no-pci", "--in-memory", "--no-telemetry", "-h")
SAYS_VERSION = r"DPDK (\d+\.[\w.~+-]+)"
LARGEST_FRAME = 1518  # that fits one of its buffers, on every port
MEMORY_MB = 64
BUFFERS = 16_384
ANSWER_TIMEOUT_S = 10.0
_LOOK_S = 0.05
_HEADING = re.compile(r"#+ NIC statistics for port 0\s+#+")
_COUNTER = re.compile(r"\b([RT]X-[a-z]+|[RT]x-pps):\s*(\d{1,15})\b")
_S = 1_000_000_000
_LONGEST_WAIT_NS = 100_000_000


class TestpmdInstrument:
    """Sender to receiver."""

    name = "testpmd"
    abilities = Abilities(
        description="DPDK's test application: txonly to rxonly, as fast as it can",
        dimensions=(Dimension.THROUGHPUT,),
        ports={PortKind.VHOST_USER: Io.DPDK, PortKind.VETH: Io.DPDK},
        environments=("netns", "bare"),
        cannot_know=(
            "which frames were lost: it counts, and numbers nothing",
            "copies (one makes up for a lost frame)",
            "reordering",
            "damaged frames, and frames that are not its own: they count as received",
            "any time",
            "how often it waited, and for how long",
        ),
        paces=False,
        saturates=True,
        largest_burst=512,
        shortest_sample_s=0.1,
        whole_seconds=False,
        linux_capabilities={
            PortKind.VHOST_USER: ("ipc_lock",),
            PortKind.VETH: ("ipc_lock", "net_admin", "net_raw"),
        },
    )

    def availability(self) -> Availability:
        """Available where the program is installed, and has memory."""
        found = find(PROGRAM, "dpdk-dev", ASK_VERSION, SAYS_VERSION)
        return (no_hugepages(2 * MEMORY_MB) if found.available else None) or found

    def refusals(self, sweep: Sweep) -> Iterator[str]:
        """Refuse frames of several buffers."""
        if max(sweep.packet_size_bytes) > LARGEST_FRAME:
            yield f"testpmd sends frames of {LARGEST_FRAME} bytes at most; use a smaller size"

    def launch(self, job: Job) -> TestpmdRun:
        """Start both programs and wait for their prompts."""
        return TestpmdRun(job)


class TestpmdRun:
    """Both programs, started."""

    def __init__(self, job: Job) -> None:
        self._job = job
        size, burst = job.trial.packet_size_bytes - FCS, job.trial.burst
        peer = job.source.port.peer_mac
        sends = [
            "--forward-mode=txonly", f"--txpkts={size}", f"--burst={burst}",
            f"--eth-peer=0,{peer}", f"--tx-ip={address(job.source)},{address(job.target)}",
            f"--tx-udp={UDP_PORT},{UDP_PORT}",
        ]  # fmt: skip
        self._target = _Console("receiver", job, job.target, ["--forward-mode=rxonly"])
        self._source = start_in_another_group(
            self._target, lambda: _Console("sender", job, job.source, sends)
        )
        self._ends_ns = 0
        self._asked_ns = 0
        self._begun_ns = 0
        self._sent_for_ns = 0

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until both answer; the receiver then counts."""
        for console in (self._target, self._source):
            console.ask("show port stats 0")
            console.wait_answer(timeout_s)
        self._target.ask("start")

    def begin(self, duration_s: float) -> None:
        """Let the sender begin. Frames that came before do not count."""
        for console in (self._target, self._source):
            console.ask("clear port stats 0")
            console.ask("show port stats 0")
            console.wait_answer(ANSWER_TIMEOUT_S)
            console.counts.clear()
        self._source.ask("start")
        self._begun_ns = time.monotonic_ns()
        for console in (self._target, self._source):
            console.begun_ns = self._begun_ns
        self._asked_ns = self._begun_ns
        self._ends_ns = self._begun_ns + round(duration_s * _S)

    def running(self) -> bool:
        """Read both once in a sample's length; stop the sender when its time is over."""
        both = (self._target, self._source)
        for console in both:
            console.take()
        if 0 < (left_ns := self._ends_ns - time.monotonic_ns()) < _LONGEST_WAIT_NS:
            time.sleep(left_ns / _S)  # it is looked at seldom, and is to stop in time
        now_ns = time.monotonic_ns()
        if now_ns >= self._ends_ns:
            self._source.ask("stop")
            self._sent_for_ns = time.monotonic_ns() - self._begun_ns
            return False
        if now_ns - self._asked_ns >= self._job.sample_s * _S:
            self._asked_ns = now_ns
            for console in both:
                if not console.waits:
                    console.ask("show port stats 0")
        return True

    def finish(self, timeout_s: float) -> Reading:
        """The counts, once no more frames come."""
        deadline = time.monotonic() + timeout_s
        for console in (self._target, self._source):
            if console.waits:  # asked in the run, and not answered yet
                console.wait_answer(ANSWER_TIMEOUT_S)
        in_time = [len(console.counts) for console in (self._source, self._target)]
        sent = self._source.final_count("TX-packets", deadline)
        received = self._target.final_count("RX-packets", deadline)
        if received > sent:
            raise TrialFailed(
                f"counts of testpmd contradict each other: {received} frames received, {sent} sent"
            )
        source, target = (
            EndReading(
                command=tuple(console.end.command),
                version=version,
                frames=frames,
                counts=tuple(console.counts[:kept]),
                told=dict(console.statistics),
            )
            for console, frames, kept, version in (
                (self._source, sent, in_time[0], self._version()),
                (self._target, received, in_time[1], self._version()),
            )
        )
        return Reading(source=source, target=target, duration_ns=self._sent_for_ns)

    def process_ids(self) -> Sequence[int]:
        """The processes of both programs."""
        return [self._target.end.spawned.pid, self._source.end.spawned.pid]

    def close(self) -> None:
        """End both."""
        for console in (self._source, self._target):
            console.end.close()

    def _version(self) -> str:
        return version_of(PROGRAM, ASK_VERSION, SAYS_VERSION)


class _Console:
    """One testpmd at its prompt, and its port's counters."""

    def __init__(self, what: str, job: Job, station: Station, options: list[str]) -> None:
        self._counter = "TX-packets" if what == "sender" else "RX-packets"
        self._rate = "Tx-pps" if what == "sender" else "Rx-pps"
        command = _command(job, station, options)
        spawned = station.spawn(command)
        self.end = ProgramEnd(f"testpmd {what}", station.node, command, spawned)
        self.fanout_group = fanout_group(spawned.pid, station)
        self.statistics: dict[str, int] = {}  # the last that it told
        self.counts: list[CountedInterval] = []
        self.begun_ns = 0
        self.waits = False  # for an answer
        self._inside = False
        self._new: dict[str, int] = {}
        self._last_ns = 0

    def ask(self, line: str) -> None:
        """Give it a command."""
        self.waits = self.waits or line.startswith("show")
        try:
            self.end.spawned.write_line(line)
        except SwitchmarkError:
            self.end.gather(0.5)
            raise self.end.failed("takes no more commands") from None

    def take(self, timeout_s: float = 0.0) -> None:
        """Read its output, waiting so long for the first line."""
        while (line := self.end.next_line(timeout_s)) is not None:
            timeout_s = 0.0
            if _HEADING.search(line):
                self._inside, self._new = True, {}
            elif self._inside and "####" in line:
                self._answered()
            elif self._inside:
                self._new |= {name: int(value) for name, value in _COUNTER.findall(line)}

    def wait_answer(self, timeout_s: float) -> None:
        """Wait until it has printed its port's counters. Raises TrialFailed."""
        wait_answer(self, self.end, timeout_s, 0.5)

    def final_count(self, counter: str, deadline: float) -> int:
        """The counter once it no longer grows."""

        def poll() -> int:
            self.ask("show port stats 0")
            self.wait_answer(ANSWER_TIMEOUT_S)
            return self.statistics[counter]

        return final_count(poll, self.end, deadline, _LOOK_S, "its sender was stopped")

    def _answered(self) -> None:
        """Whether an answer is complete: the counter grew since the last one, at the rate that it
        gives."""
        self._inside = self.waits = False
        lacking = {self._counter, self._rate} - self._new.keys()
        if lacking:
            raise self.end.failed(f"printed statistics without {' and '.join(sorted(lacking))}")
        frames = self._new[self._counter] - self.statistics.get(self._counter, 0)
        rate_pps, now_ns = self._new[self._rate], time.monotonic_ns()
        told = frames > 0 and rate_pps > 0
        duration_ns = round(frames * _S / rate_pps) if told else now_ns - self._last_ns
        if frames >= 0 and self._last_ns:
            self.counts.append(CountedInterval(now_ns - self.begun_ns, duration_ns, frames))
        self.statistics, self._last_ns = self._new, now_ns


def _command(job: Job, station: Station, options: list[str]) -> list[str]:
    """The command line; the main thread and the one that forwards share the node's first core."""
    core = station.cores[0] if station.cores else 0
    return [
        "env", f"RUNTIME_DIRECTORY={job.folder}", "stdbuf", "-oL", PROGRAM,
        "--in-memory", "--single-file-segments", "-m", str(MEMORY_MB), "--no-pci",
        "--no-telemetry", f"--file-prefix=tp-{station.node}", "--lcores", f"0@{core},1@{core}",
        f"--vdev={port_device(job, station)}", "--",
        "-i", *options, "--nb-cores=1", f"--total-num-mbufs={BUFFERS}", "--disable-link-check",
    ]  # fmt: skip
