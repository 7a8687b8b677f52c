#!/usr/bin/env python3
"""Compares the engine's kernel backends with other programs on the same veth pair.

Each kind of port has its opponents:

  packet-mmap  dpdk-testpmd with DPDK's af_packet driver
  af-xdp       dpdk-testpmd with DPDK's af_xdp driver, and the floor
  raw-mmsg     a plain sendmmsg loop (plain.c): past the qdisc, through it, and as earlier tools
               have it, through it and to the device's own address, so that the receiving kernel's
               IP stack looks at every frame (ours are for addresses that no kernel has)
  udp-mmsg     a plain sendmmsg loop on UDP, and iperf3 -u
  io-uring     the plain loop past the qdisc, and the floor

and up to three cases:

  sender    the program sends as fast as it can; nobody listens at the other end, where the
            kernel drops what is not for it (for UDP: a socket that is never read). So this is
            what sending costs, through the wire and up to the kernel's door at the other end
  pair      the same with a receiver of the same program and kind on another core, which
            verifies and counts (ours) or counts (testpmd rxonly): what arrives there
  receiver  one and the same sender for both programs' receivers: ours, of the same kind

The floor (floor.c, senders only) goes the same way into the kernel and does nothing else: no frame
is written, the same descriptors or requests are handed over again and again. No sender that goes
that way can be faster.

Frames are counted at the receiving end by the device (sender) or by the receiving program.
Programs alternate in random order; medians, the ratio to ours, and the spread (half the distance
between the quartiles) are printed. A run in which a program waited for its core, or the
hypervisor took time, for more than --disturbed is repeated up to three times and else marked.
For senders, which are busy all of their time, the rate is also given a second of CPU time: what
it would be with the core to itself, and to be trusted on a busy machine.
With --profile, the share of the engine's own code in the sender's time is printed, by `perf`:
the rest is the kernel's, which no program can be faster than.

Needs root, two cores, and the programs; an opponent that is not installed is left out by name.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from comparison import spread
from plain import Plain, compile_all
from programs import ProgramError, Reading, Testpmd, Traffic, stolen_s
from setting import common_options, find_engine, preferred, two_cores
from wire import DEVICE_A, DEVICE_B, IP_A, IP_B, MAC_A, MAC_B, Wire, inside

WARM_UP_S = 0.4
ATTEMPTS = 3
MOVING_TIMEOUT_S = 10.0
OURS = "switchmark-traffic"
TESTPMD, IPERF = "testpmd", "iperf3"
PLAIN, PLAIN_PAST = "plain loop", "plain loop, past qdisc"
PLAIN_ADDRESSED = "plain loop, addressed"
FLOOR = "floor"
CASES = ("sender", "pair", "receiver")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of port: the engine's specification, DPDK's, and whom it is compared with."""

    engine: str
    vdev: str | None
    opponents: tuple[str, ...]


KINDS = {
    "packet-mmap": Kind("packet_mmap:dev={}", "net_af_packet0,iface={},qdisc_bypass=1", (TESTPMD,)),
    "af-xdp": Kind("af_xdp:dev={}", "net_af_xdp0,iface={}", (TESTPMD, FLOOR)),
    "raw-mmsg": Kind("raw:dev={},mmsg", None, (PLAIN_PAST, PLAIN, PLAIN_ADDRESSED)),
    "udp-mmsg": Kind("udp:dev={},mmsg", None, (PLAIN, IPERF)),
    "io-uring": Kind("io_uring:dev={}", None, (PLAIN_PAST, FLOOR)),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: frames/s, and the share of its time that others took (summed over programs)."""

    rate_pps: float
    disturbed: float
    cpu_rate_pps: float  # a second of the sender's CPU time


class Bench:
    """Builds and measures the programs of one run."""

    def __init__(
        self, options: argparse.Namespace, cores: tuple[int, int], built: dict[str, Path]
    ) -> None:
        self.options = options
        self.engine = find_engine(options.engine)
        self.core, self.other_core = cores
        self.built = built  # programs of plain.py by name

    def _traffic(self, role: str, kind: str, core: int) -> Traffic:
        sends = role == "sender"
        own, peer = ((MAC_A, IP_A), (MAC_B, IP_B)) if sends else ((MAC_B, IP_B), (MAC_A, IP_A))
        options = ["--frame-size", str(self.options.frame_size), "--idle", "poll"]
        options += ["--src-ip", own[1], "--dst-ip", peer[1]]
        if kind != "udp-mmsg":
            options += ["--src-mac", own[0], "--dst-mac", peer[0]]
        if sends:
            options += ["--rate", "max", "--burst", str(self.options.burst)]
        spec = KINDS[kind].engine.format(DEVICE_A if sends else DEVICE_B)
        return Traffic(self.engine, role, [spec], options, core)

    def _testpmd(self, mode: str, kind: str, core: int) -> Testpmd:
        vdev = (KINDS[kind].vdev or "").format(DEVICE_A if mode == "txonly" else DEVICE_B)
        options = [f"--burst={self.options.burst}", f"--txpkts={self.options.frame_size - 4}"]
        return Testpmd(mode, [vdev], options, core)

    def sender(self, kind: str, program: str, wire: Wire) -> Traffic | Testpmd | Plain:
        """The program that sends from the first namespace, on the measured core."""
        if program == OURS:
            return self._traffic("sender", kind, self.core)
        if program == TESTPMD:
            return self._testpmd("txonly", kind, self.core)
        if program == IPERF:
            length = self.options.frame_size - 46  # Ethernet, IP, UDP, FCS
            words = ["iperf3", "-c", IP_B, "-u", "-b", "0", "-l", str(length), "-t", "60"]
            return Plain(words, self.core)
        if program == FLOOR:
            words = [kind.replace("-", "_"), DEVICE_A, str(self.options.frame_size - 4)]
            return Plain([str(self.built["floor"]), *words, str(self.options.burst)], self.core)
        udp = kind == "udp-mmsg"
        way = "udp" if udp else "raw-bypass" if program == PLAIN_PAST else "raw"
        size = self.options.frame_size - (46 if udp else 4)
        words = [way, IP_B if udp else DEVICE_A, str(size), str(self.options.burst)]
        if program == PLAIN_ADDRESSED:
            words = ["datagram", *words[1:], wire.far_mac(), IP_B]
        return Plain([str(self.built["plain"]), *words], self.core)

    def receiver(self, kind: str, program: str, core: int) -> Traffic | Testpmd:
        """The program that receives in the second namespace."""
        if program == OURS:
            return self._traffic("receiver", kind, core)
        return self._testpmd("rxonly", kind, core)

    def run(self, kind: str, case: str, program: str) -> Run:
        """Measure once."""
        with ExitStack() as stack:
            wire = stack.enter_context(Wire())
            running: list[Traffic | Testpmd | Plain] = []
            stack.callback(kill_all, running)
            read = wire.arrived
            with inside(wire.b):
                if case != "sender":
                    receives = self.receiver(kind, program, self.other_core)
                    running.append(receives)
                    counter = "rx_frames" if isinstance(receives, Traffic) else "RX-packets"
                    read = lambda: receives.frames(counter)  # noqa: E731
                elif program == IPERF:
                    running.append(Plain(["iperf3", "-s"], self.other_core))
                    time.sleep(0.3)
                elif kind == "udp-mmsg":
                    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    stack.callback(sink.close)
                    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    sink.bind((IP_B, 5000))
            with inside(wire.a):
                running.append(self.sender(kind, OURS if case == "receiver" else program, wire))
            for each in running:
                each.start()
            _wait_for_frames(wire)
            return self._measure(running, read)

    def _measure(
        self, running: Sequence[Traffic | Testpmd | Plain], read: Callable[[], Reading]
    ) -> Run:
        waited, stolen = _waited_ns(running), stolen_s()
        ran_ns = running[-1].process.ran_ns()
        first = read()
        time.sleep(self.options.seconds)
        last = read()
        ran_s = (running[-1].process.ran_ns() - ran_ns) / 1e9
        taken_s = (_waited_ns(running) - waited) / 1e9 + stolen_s() - stolen
        span_s = last.time_s - first.time_s
        frames = last.frames - first.frames
        return Run(frames / span_s, taken_s / span_s, frames / max(ran_s, 1e-9))

    def least_disturbed(self, kind: str, case: str, program: str) -> Run:
        """The least disturbed of up to three attempts."""
        runs: list[Run] = []
        while len(runs) < ATTEMPTS:
            runs.append(self.run(kind, case, program))
            if runs[-1].disturbed <= self.options.disturbed:
                break
        return min(runs, key=lambda run: run.disturbed)

    def own_share(self, kind: str) -> str:
        """Which share of the sender's time is spent in the engine's own code."""
        with ExitStack() as stack:
            wire = stack.enter_context(Wire())
            data = stack.enter_context(tempfile.NamedTemporaryFile(suffix=".perf"))
            with inside(wire.a):
                sender = self._traffic("sender", kind, self.core)
            stack.callback(sender.process.kill)
            sender.start()
            time.sleep(WARM_UP_S)
            record = ["perf", "record", "-q", "-o", data.name, "-F", "4000"]
            record += ["-p", str(sender.process.pid), "--", "sleep", "1"]
            subprocess.run(record, check=True, capture_output=True, timeout=30)
            report = ["perf", "report", "-i", data.name, "--stdio", "-q", "-F", "overhead,dso"]
            said = subprocess.run(report, check=True, capture_output=True, text=True, timeout=60)
        shares = dict(line.split()[::-1][:2] for line in said.stdout.splitlines() if line.strip())
        own = float(shares.get(self.engine.name, "0%").rstrip("%"))
        kernel = float(shares.get("[kernel.kallsyms]", "0%").rstrip("%"))
        return f"engine {own:.1f} %, kernel {kernel:.1f} %"


def kill_all(running: Sequence[Traffic | Testpmd | Plain]) -> None:
    """End them at once."""
    for each in running:
        each.process.kill()


def _waited_ns(running: Sequence[Traffic | Testpmd | Plain]) -> int:
    return sum(each.process.waited_ns() for each in running)


def _wait_for_frames(wire: Wire) -> None:
    """Until frames arrive, and then a moment more. Raises ProgramError."""
    end_s = time.monotonic() + MOVING_TIMEOUT_S
    begun = wire.arrived().frames
    while wire.arrived().frames < begun + 1000:
        if time.monotonic() > end_s:
            raise ProgramError("no frames arrive at the other end of the wire")
        time.sleep(0.05)
    time.sleep(WARM_UP_S)


def compare(bench: Bench, kind: str, case: str) -> None:
    """Measure all programs of a kind and case alternately, and print their lines."""
    options = bench.options
    opponents = [each for each in KINDS[kind].opponents if case == "sender" or each != FLOOR]
    programs = [OURS, *(each for each in opponents if is_there(each))]
    runs: dict[str, list[Run]] = {program: [] for program in programs}
    for _ in range(options.runs):
        for program in random.sample(programs, len(programs)):
            runs[program].append(bench.least_disturbed(kind, case, program))
    medians = {each: statistics.median(run.rate_pps for run in runs[each]) for each in programs}
    of_cpu = {each: statistics.median(run.cpu_rate_pps for run in runs[each]) for each in programs}
    for program in programs:
        ratio = medians[OURS] / medians[program]
        disturbed = sum(run.disturbed > options.disturbed for run in runs[program])
        wide = spread([run.rate_pps for run in runs[program]])
        print(
            f"{kind:<13}{case:<10}{program:<25}{medians[program] / 1e6:>7.3f}{100 * wide:>7.1f} %"
            f"{'' if program == OURS else f'{ratio:8.2f}':>8}{disturbed:>6} of {options.runs}"
            f"{_of_cpu_time(of_cpu, program) if case == 'sender' else ''}",
            flush=True,
        )


def _of_cpu_time(rates: dict[str, float], program: str) -> str:
    """The rate a second of CPU time, and the ratio of ours."""
    ratio = "" if program == OURS else f"{rates[OURS] / rates[program]:8.2f}"
    return f"{rates[program] / 1e6:>12.3f}{ratio:>8}"


def is_there(program: str) -> bool:
    """Whether what an opponent takes is installed; if not, it is named."""
    needed = {TESTPMD: "dpdk-testpmd", IPERF: "iperf3"}.get(program, "cc")
    if shutil.which(needed) is None:
        print(f"{program}: left out, {needed} is not installed", file=sys.stderr)
        return False
    return True


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = common_options(__doc__, "the measured sender's core and the other one")
    add = parser.add_argument
    add("--kind", choices=KINDS, action="append", help="repeatable; default: all")
    add("--case", choices=CASES, action="append", help="repeatable; default: all")
    add("--profile", action="store_true", help="print the engine's own share of the time")
    return parser.parse_args()


def main() -> None:
    """Check what is there, measure, print."""
    options = arguments()
    if os.geteuid() != 0:
        sys.exit("needs root, for network namespaces")
    cores = two_cores(options.cores)
    with preferred(options.priority), tempfile.TemporaryDirectory(prefix="sm-bench-") as folder:
        bench = Bench(options, cores, compile_all(Path(folder)))
        print(f"veth, {options.frame_size} B, burst {options.burst}; rates in Mpps, ratios of ours")
        print(
            f"{'kind':<13}{'case':<10}{'program':<25}   Mpps  spread   ratio  disturbed"
            "  a CPU second, ratio"
        )
        for kind in options.kind or KINDS:
            for case in options.case or CASES:
                if case == "sender" or KINDS[kind].vdev is not None:
                    compare(bench, kind, case)
            if options.profile:
                print(f"{kind:<13}time of the sender: {bench.own_share(kind)}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except ProgramError as failure:
        sys.exit(str(failure))
