"""`pktgen-dpdk`: Pktgen-DPDK, a sender and a receiver (https://pktgen-dpdk.github.io).

Each runs the bench's Lua script (`pktgen_dpdk.lua`), which waits for orders on standard input, and
prints the port's counter after each change, with the kernel's monotonic clock. Pktgen updates its
counters once a second, so a sample has this length.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

from switchmark.errors import Refusal, TrialFailed
from switchmark.host.programs import UNKNOWN, no_program
from switchmark.instrument.support.base import COUNTS_ALONE, Abilities, Instrument, Job, Station
from switchmark.instrument.support.dpdk_ports import (
    eal_memory,
    fanout_group,
    port_device,
    start_in_another_group,
)
from switchmark.instrument.support.frame import flow_frame
from switchmark.instrument.support.named import named_program
from switchmark.instrument.support.program import (
    ProgramEnd,
    close_all,
    running,
    version_of,
)
from switchmark.instrument.support.reading import CountedInterval, EndReading, Reading, check_counts
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.model.io import Io
from switchmark.model.page_size import EITHER
from switchmark.model.ports import PortKind

SETTING, PROGRAM = "SWITCHMARK_PKTGEN", "pktgen"
OBTAIN = "build Pktgen-DPDK (github.com/pktgen/Pktgen-DPDK) with -Denable_lua=true"
ASK = ("-v", "-h")  # it prints its own version only while it runs
SAYS_DPDK = r"(DPDK \d+\.[\w.~+-]+)"
SAYS_LUA = r"(Lua script)"
SCRIPT = "pktgen_dpdk.lua"
SMALLEST_RUN_S = 3.0  # has a whole sample, for any begin of Pktgen's second
MEMORY_MB = 1300  # five pools of 24,576 buffers of 10 KiB, for any port
SMALL_PAGES_MB = 1600  # a buffer takes whole small pages
IN_HUGEPAGES = ("--in-memory", "--single-file-segments")  # memory on demand
_LINE = re.compile(r"^switchmark (\w+) ?(.*)$")


class PktgenDpdk(Instrument):
    """Sender to receiver."""

    name = "pktgen-dpdk"
    abilities = Abilities(
        description="Pktgen-DPDK: one program sends, at a rate or at the highest rate, and one "
        "receives",
        ports={PortKind.VHOST_USER: Io.DPDK, PortKind.VETH: Io.DPDK},
        environments=("netns", "bare"),
        cannot_know=(
            *COUNTS_ALONE,
            "changes within a second, because its counters change once in a second",
            "how often and how long it waited",
        ),
        largest_burst=128,
        shortest_sample_s=1.0,
        largest_frame_bytes=1518,
        page_sizes=EITHER,
        memory_mb=MEMORY_MB,
        function_flows=1,
        linux_capabilities={
            PortKind.VHOST_USER: (),
            PortKind.VETH: ("ipc_lock", "net_admin", "net_raw"),
        },
    )

    def availability(self) -> Availability:
        """Available if the program is installed, and was built with Lua."""
        program = named_program(SETTING, PROGRAM)
        if program is None:
            return no_program(SETTING, PROGRAM, OBTAIN)
        if version_of(str(program), ASK, SAYS_LUA) == UNKNOWN:
            return unavailable(f"{program} was built without Lua", remedy=OBTAIN)
        return available(f"with {_dpdk(program)}")

    def refusals(self, sweep: Sweep) -> Iterator[Refusal]:
        """Refuse runs without a whole sample."""
        if min(sweep.duration_s) < SMALLEST_RUN_S:
            yield Refusal(
                f"pktgen-dpdk counts once a second, and {min(sweep.duration_s):g} s are too few",
                f"use duration: {SMALLEST_RUN_S:g}s or more",
            )

    def launch(self, job: Job) -> PktgenRun:
        """Start both programs; each waits for orders."""
        return PktgenRun(job)


class PktgenRun:
    """Both programs, started."""

    def __init__(self, job: Job) -> None:
        program = named_program(SETTING, PROGRAM)
        if program is None:
            raise TrialFailed("pktgen-dpdk: its program has gone")
        self._job, self._dpdk = job, _dpdk(program)
        self._over = job.folder / f"pktgen-{job.target.node}.over"
        flow = flow_frame(job)
        sends: dict[str, str | int] = {
            "rate_pps": job.trial.rate_pps or 0,
            "mac": flow.destination_mac,
            "source": f"{flow.source}/32",
            "target": flow.destination,
            "source_port": flow.source_port,
            "target_port": flow.destination_port,
        }
        self._target = _Counter("receiver", job, job.target, program, {})
        self._source = start_in_another_group(
            self._target, lambda: _Counter("sender", job, job.source, program, sends)
        )
        self._begun_ns = 0

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until both wait for orders; the receiver then counts."""
        deadline = time.monotonic() + timeout_s
        self._target.wait("ready", deadline)
        self._source.wait("ready", deadline)
        self._target.program.order(f"watch {self._over}")
        self._target.wait("begun", deadline)

    def begin(self, duration_s: float) -> None:
        """Let the sender begin."""
        self._begun_ns = time.monotonic_ns()
        self._source.program.order(f"run {duration_s:g}")

    def running(self) -> bool:
        """Return True while the sender sends."""
        for end in (self._source, self._target):
            end.take(0.0)
        return "stopped" not in self._source.messages

    def finish(self, timeout_s: float) -> Reading:
        """Return the counts of both when they no longer change."""
        deadline = time.monotonic() + timeout_s
        source, target = self._source, self._target
        source.wait("total", deadline)
        self._over.touch()
        try:
            target.wait("total", deadline)
        finally:
            self._over.unlink()
        sent, received = source.number("total"), target.number("total")
        check_counts(PktgenDpdk.name, sent, received)
        begun_ns, stopped_ns = source.number("begun"), source.number("stopped")
        if stopped_ns <= begun_ns:
            raise source.program.failed("stopped before it had begun")
        return Reading(
            source=source.reading(self._dpdk, begun_ns, self._begun_ns),
            target=target.reading(self._dpdk, begun_ns, self._begun_ns),
            duration_ns=stopped_ns - begun_ns,
        )

    def process_ids(self) -> Sequence[int]:
        """Return the processes of both programs."""
        return running(self._target.program, self._source.program)

    def close(self) -> None:
        """End both."""
        close_all(self._source.program, self._target.program)


class _Counter:
    """One Pktgen that runs the script: its messages, and its port's counter."""

    def __init__(
        self, role: str, job: Job, station: Station, program: Path, settings: dict[str, str | int]
    ) -> None:
        trial = job.trial
        variables = {"size": trial.packet_size_bytes, "burst": trial.burst, **settings}
        script = job.folder / f"pktgen-{station.node}.lua"
        lines = [f"local {key} = {_lua(value)}" for key, value in variables.items()]
        text = resources.files("switchmark.instrument").joinpath(SCRIPT).read_text("utf-8")
        script.write_text("\n".join([*lines, text]))
        command = _command(job, station, program, script)
        spawned = station.spawn(command)
        self.program = ProgramEnd(f"pktgen {role}", station.node, command, spawned)
        self.fanout_group = fanout_group(spawned.pid, station)
        self.messages: dict[str, str] = {}  # the last message of each word
        self._counts: list[tuple[int, int]] = []  # CLOCK_MONOTONIC in ns, frames

    def take(self, timeout_s: float) -> None:
        """Read its output, and wait up to the timeout for the first line. Raises TrialFailed."""
        while (line := self.program.next_line(timeout_s)) is not None:
            timeout_s = 0.0
            if (found := _LINE.match(line.strip())) is None:
                continue
            word, content = found.groups()
            if word == "refused":
                raise TrialFailed(self.program.say(f"cannot keep the rate: {content[:80]}"))
            if word == "count":
                at_ns, frames = self._numbers(content, 2)
                self._counts.append((at_ns, frames))
            self.messages[word] = content

    def wait(self, word: str, deadline: float) -> None:
        """Wait until it has printed this word. Raises TrialFailed."""
        while word not in self.messages:
            left_s = deadline - time.monotonic()
            self.take(max(0.0, left_s))
            if word not in self.messages and left_s <= 0:
                raise self.program.failed(f"did not print `{word}` in time")

    def number(self, word: str) -> int:
        """Return the number that it printed with a word."""
        return self._numbers(self.messages.get(word, ""), 1)[0]

    def reading(self, dpdk: str, begun_ns: int, run_ns: int) -> EndReading:
        """Return its counts since `begun_ns`, with the times of a run that began at `run_ns`."""
        counts, last_ns, last = [], begun_ns, 0
        for at_ns, frames in self._counts:
            if at_ns <= last_ns or frames < last:
                raise self.program.failed("counts backwards")
            counts.append(CountedInterval(at_ns - run_ns, at_ns - last_ns, frames - last))
            last_ns, last = at_ns, frames
        link = f"{self.messages['ready']} Mbit/s" if self.messages.get("ready", "0") != "0" else ""
        return EndReading(
            command=tuple(self.program.command),
            version=f"{self.messages.get('version', '')[:40]} with {dpdk}",
            frames=self.number("total"),
            counts=tuple(counts),
            report={"link": link} if link else {},
        )

    def _numbers(self, text: str, count: int) -> list[int]:
        parts = text.split()
        if len(parts) != count or not all(re.fullmatch(r"\d{1,18}", part) for part in parts):
            raise self.program.failed("printed a counter that is not a number")
        return [int(part) for part in parts]


def _lua(value: str | int) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"'


def _dpdk(program: Path) -> str:
    return version_of(str(program), ASK, SAYS_DPDK)


def _command(job: Job, station: Station, program: Path, script: Path) -> list[str]:
    """Return the command line. The thread of its clock polls on the core of its main thread: the
    node's last core, which is not the sender's core if there are two.
    """
    cores = station.cores or tuple(sorted(os.sched_getaffinity(0)))
    main, worker = cores[-1], cores[-1] + 1
    return [
        "env", f"RUNTIME_DIRECTORY={job.folder}", str(program),
        *(eal_memory(station, SMALL_PAGES_MB) if station.port.small_pages else IN_HUGEPAGES),
        "--no-pci",
        "--no-telemetry", f"--file-prefix=pg-{station.node}",
        "--lcores", f"{main}@{main},{worker}@{cores[0]}", f"--main-lcore={main}",
        f"--vdev={port_device(job, station)}", "--",
        "-P", "-m", f"{worker}.0", f"--txd={job.trial.ring}", f"--rxd={job.trial.ring}",
        "-f", str(script),
    ]  # fmt: skip
