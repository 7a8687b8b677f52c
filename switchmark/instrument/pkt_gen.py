"""`pkt-gen`: the generator of netmap, a sender and a receiver.

`-f tx` repeats one frame, `-f rx` counts all received frames. Both print frames and microseconds
several times a second, and the totals at their end. It reports no version.
(apps/pkt-gen of https://github.com/luigirizzo/netmap)

VALE sends a frame to the port at which its destination last sent. The receiver never sends, so a
sender at its port teaches VALE the address before the receiver opens the port.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from switchmark.errors import Refusal, TrialFailed
from switchmark.function.support.frames import Frame
from switchmark.host.kernel import netmap
from switchmark.host.programs import UNKNOWN, no_program
from switchmark.instrument.support.base import COUNTS_ALONE, Abilities, Instrument, Job, Station
from switchmark.instrument.support.frame import flow_frame
from switchmark.instrument.support.named import build_of, named_program
from switchmark.instrument.support.pkt_gen_words import REPORT, read_words, sent_for, whole_run
from switchmark.instrument.support.program import ProgramEnd, close_all, running
from switchmark.instrument.support.reading import EndReading, Reading, check_counts
from switchmark.instrument.support.udp import FCS
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Availability, available
from switchmark.model.io import Io
from switchmark.model.ports import PortKind

SETTING, PROGRAM = "SWITCHMARK_PKT_GEN", "pkt-gen"
LARGEST_FRAME, LARGEST_ON_DEVICE = 1518, 1504  # it compares the frame with a device's MTU of 1500
QUIET_REPORTS = 3  # after these reports without frames, no more frames come
LATE_S = 1.0  # time after its duration, for a sender that was interrupted
TOO_LONG_S = 490  # its clock is unambiguous within 500 s (support/pkt_gen_words.py)
_LONGEST_WAIT_S = 0.1
# It prints reports on one stream, and totals on the other.
_MERGED = ("sh", "-c", 'exec "$@" 2>&1', "sh")


class PktGen(Instrument):
    """Sender to receiver."""

    name = "pkt-gen"
    abilities = Abilities(
        description="generator of netmap, tx to rx, on VALE ports or in generic mode on veth",
        ports={PortKind.VALE: Io.NETMAP, PortKind.VETH: Io.NETMAP},
        cannot_know=(
            *COUNTS_ALONE,
            "the due time of each frame, and how late it was sent",
            "how often and how long it waited",
        ),
        largest_burst=512,
        most_rate_pps=1_000_000_000,
        function_flows=1,
    )

    def availability(self) -> Availability:
        """Available if the program is installed, and netmap's module is loaded."""
        program = named_program(SETTING, PROGRAM)
        if program is None:
            return no_program(SETTING, PROGRAM, "build netmap (github.com/luigirizzo/netmap)")
        return netmap.not_loaded() or available(_version())

    def refusals(self, sweep: Sweep) -> Iterator[Refusal]:
        """Refuse frames and runs beyond its limits."""
        own_ports = set(sweep.port_kind) == {PortKind.VALE}
        most = LARGEST_FRAME if own_ports else LARGEST_ON_DEVICE
        if max(sweep.packet_size_bytes) > most:
            more = "" if own_ports else f" ({LARGEST_FRAME} with port_kind: vale)"
            yield Refusal(
                f"pkt-gen sends frames of {most} bytes at most{more}", "use a smaller size"
            )
        if max(sweep.duration_s) >= TOO_LONG_S:
            yield Refusal(
                f"pkt-gen prints times modulo 1000 s, and runs for less than {TOO_LONG_S} s",
                "use a shorter duration",
            )

    def launch(self, job: Job) -> PktGenRun:
        """Teach the receiver's port, if the switch is VALE; otherwise start the receiver."""
        return PktGenRun(job)


class PktGenRun:
    """The receiver, then both."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._receiver: ProgramEnd | None = None
        self._sender: ProgramEnd | None = None
        self._teacher: ProgramEnd | None = None
        if job.target.port.kind is PortKind.VALE:
            self._teacher = self._end("teacher", job.target, ["-f", "tx", "-n", "1"])
        self._duration_s = self._stop_s = 0.0
        self._asked_to_stop = False

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the receiver counts."""
        deadline = time.monotonic() + timeout_s
        if self._teacher is not None:
            _ended(self._teacher, timeout_s)
        self._receiver = self._end("receiver", self._job.target, ["-f", "rx"])
        while True:
            has_ended = self._receiver.gather(_LONGEST_WAIT_S)
            if REPORT.search(self._receiver.output):
                return
            if has_ended:
                _ended(self._receiver, 1.0)
                raise self._receiver.failed("ended before it received")
            if time.monotonic() > deadline:
                raise self._receiver.failed(f"reports nothing after {timeout_s:.0f} s")

    def begin(self, duration_s: float) -> None:
        """Start the sender. With a rate it ends by its number of frames."""
        rate_pps, self._duration_s = self._job.trial.rate_pps, duration_s
        arguments = ["-f", "tx", "-b", str(self._job.trial.burst)]
        if rate_pps is not None:
            arguments += ["-R", str(rate_pps), "-n", str(max(1, round(rate_pps * duration_s)))]
        self._sender = self._end("sender", self._job.source, arguments)

    def running(self) -> bool:
        """Return True while the sender runs; it gets a signal when its time is over."""
        sender, receiver = self._both()
        if receiver.gather(0.0):
            _ended(receiver, 0.0)
            raise receiver.failed("ended in mid-run")
        if sender.gather(0.0):
            return False
        if not self._stop_s:
            if read_words(sender).begun_ns is not None:
                late_s = 0.0 if self._job.trial.rate_pps is None else LATE_S
                self._stop_s = time.monotonic() + self._duration_s + late_s
            return True
        left_s = self._stop_s - time.monotonic()
        if 0 < left_s < _LONGEST_WAIT_S:
            time.sleep(left_s)  # the next call may be late, and the sender must stop in time
        if time.monotonic() >= self._stop_s and not self._asked_to_stop:
            self._asked_to_stop = True
            _interrupt(sender)
        return True

    def finish(self, timeout_s: float) -> Reading:
        """Return the counts when no more frames come."""
        deadline = time.monotonic() + timeout_s
        sender, receiver = self._both()
        _ended(sender, timeout_s)
        self._wait_silence(receiver, deadline)
        _interrupt(receiver)
        _ended(receiver, max(1.0, deadline - time.monotonic()))
        (sent, sent_frames), (received, received_frames) = whole_run(sender), whole_run(receiver)
        if not sent_frames:
            raise TrialFailed(sender.say("sent nothing"))
        check_counts(PktGen.name, sent_frames, received_frames)
        begun_ns, lasted_ns = sent_for(sender, sent)
        source, target = (
            EndReading(
                command=tuple(end.command),
                version=_version(),
                frames=frames,
                counts=words.counts(begun_ns, lasted_ns),
                report={"frames": frames, "reports": len(words.reports)},
            )
            for end, words, frames in (
                (sender, sent, sent_frames),
                (receiver, received, received_frames),
            )
        )
        return Reading(source=source, target=target, duration_ns=lasted_ns)

    def process_ids(self) -> Sequence[int]:
        """Return the processes of both programs while they run."""
        return running(self._receiver, self._sender)

    def close(self) -> None:
        """End all programs."""
        close_all(self._sender, self._receiver, self._teacher)

    def _wait_silence(self, receiver: ProgramEnd, deadline: float) -> None:
        reports_before = len(read_words(receiver).reports)
        while True:
            last = read_words(receiver).reports[reports_before:][-QUIET_REPORTS:]
            if len(last) == QUIET_REPORTS and not any(one.frames for one in last):
                return
            if time.monotonic() > deadline:
                raise receiver.failed("still counts frames, long after its sender has ended")
            if receiver.gather(_LONGEST_WAIT_S):
                raise receiver.failed("ended before its signal")

    def _end(self, role: str, station: Station, arguments: list[str]) -> ProgramEnd:
        command = _command(self._job, station, arguments)
        return ProgramEnd(f"pkt-gen {role}", station.node, command, station.spawn(command))

    def _both(self) -> tuple[ProgramEnd, ProgramEnd]:
        if self._sender is None or self._receiver is None:
            raise TrialFailed("pkt-gen: its sender was not started")
        return self._sender, self._receiver


def _version() -> str:
    program = named_program(SETTING, PROGRAM)
    return UNKNOWN if program is None else build_of(program)


def _command(job: Job, station: Station, arguments: Sequence[str]) -> list[str]:
    """Return the command line at one end. A VALE port is in the network namespace of its switch."""
    port, flow = station.port, flow_frame(job)
    if station is job.target:  # it sends at most one frame, in the other direction
        flow = Frame(port.mac, port.peer_mac, flow.destination, flow.source,
                     flow.destination_port, flow.source_port, b"")  # fmt: skip
    inside: list[str] = []
    name = f"netmap:{port.device_inside}"
    if port.made_port is not None and port.made_port.netmap is not None:
        name, _, netns = port.made_port.netmap.partition(",netns=")
        inside = ["nsenter", f"--net={netns}"] if netns else []
    return [
        *inside, *_MERGED, str(named_program(SETTING, PROGRAM) or PROGRAM),
        "-i", name, *arguments, "-l", str(job.trial.packet_size_bytes - FCS),
        "-S", flow.source_mac, "-D", flow.destination_mac,
        "-s", f"{flow.source}:{flow.source_port}",
        "-d", f"{flow.destination}:{flow.destination_port}",
        "-N", "-T", f"{job.sample_s * 1000:.0f}", "-w", "0",
    ]  # fmt: skip


def _interrupt(end: ProgramEnd) -> None:
    """Send SIGINT like Ctrl-C, so that pkt-gen prints its totals."""
    with suppress(ProcessLookupError):
        os.kill(end.spawned.pid, signal.SIGINT)


def _ended(end: ProgramEnd, timeout_s: float) -> None:
    """Wait for its end. After an error it prints the reason and then its usage."""
    try:
        end.wait_end(timeout_s)
    except TrialFailed:
        if reason := read_words(end).gave_up:
            raise TrialFailed(end.say(f"failed: {reason}")) from None
        raise
