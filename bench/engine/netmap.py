#!/usr/bin/env python3
"""Compares the traffic engine's netmap backend with netmap's own pkt-gen on the same ports.

  sender     `switchmark-traffic sender` (every frame has its own sequence number, two time stamps
             and right checksums) against `pkt-gen -f tx` (one frame, repeatedly); a
             `pkt-gen -f rx` receives
  receiver   `switchmark-traffic receiver` (sequence, checksums and latency of every frame) against
             `pkt-gen -f rx` (counts); the engine's sender sends
  pair       sender and receiver of the same program: received frames

on two ports of a VALE switch, and on the two ends of a netmap pipe. VALE never delays a sender: it
drops frames for a full receiving ring, so that a sender has its own rate there. A pipe is as fast
as the slower of its ends.

Rates are the programs' own counts. Runs alternate in random order; the table gives medians, their
ratio, and the spread (half the distance between the quartiles, of the median). A run in which a
program waited for its core, or the hypervisor took time, for more than --disturbed is repeated up
to three times and otherwise marked. Warming up takes 0.4 s.

It needs root, two cores, netmap.ko loaded, an engine built with -Dnetmap_headers=FOLDER, and
pkt-gen (netmap's apps/pkt-gen), named by SWITCHMARK_PKT_GEN or --pkt-gen. Without the module on
this machine, `tools/vm-tests -k pkt_gen` runs this in a guest that has it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import argparse
import os
import random
import re
import time
from functools import partial

from comparison import OURS, Run, least_disturbed, observe, show, summary
from programs import Process, ProgramError, Reading, Traffic
from setting import common_options, find_engine, preferred, two_cores

WARM_UP_S = 0.4
DEVICE = Path("/dev/netmap")
VARIABLE = "SWITCHMARK_PKT_GEN"
PKT_GEN = "pkt-gen"
REPORT_MS = 50
REPORT = re.compile(r" main_thread \[\d+\] .*\((\d+)\S* pkts .* in (\d+) usec\)")
CASES = ("sender", "receiver", "pair")
PORTS = {"vale": ("valesmbk:a", "valesmbk:b"), "pipe": ("smbk{1", "smbk}1")}
MACS = ("02:53:4d:00:00:01", "02:53:4d:00:00:02")


class PktGen:
    """`pkt-gen` at a port; it sends or receives from its start to its end."""

    def __init__(self, arguments: list[str], core: int) -> None:
        self.process = Process([*arguments, "-N", "-T", str(REPORT_MS)], core, words_on_errors=True)
        self._frames, self._time_us = 0, 0
        while "Ready" not in self.process.line()[1]:
            pass

    def start(self) -> None:
        """Do nothing, as it runs already."""

    def frames(self, counter: str) -> Reading:
        """Return the frames that it has sent or received up to its next report."""
        del counter
        asked_s = time.monotonic()
        while True:
            when_s, line = self.process.line()
            if (found := REPORT.search(line)) is None:
                continue
            self._frames += int(found[1])
            self._time_us += int(found[2])
            if when_s >= asked_s:
                return Reading(self._time_us / 1e6, self._frames)

    def finish(self) -> None:
        """Do nothing, as `kill` ends it."""


Program = Traffic | PktGen


class Bench:
    """Builds the programs of one run."""

    def __init__(self, options: argparse.Namespace, pkt_gen: Path, cores: tuple[int, int]) -> None:
        self.options = options
        self.engine = find_engine(options.engine)
        self.pkt_gen = pkt_gen
        self.cores = cores  # sending end, receiving end

    def program(self, program: str, kind: str, end: int) -> Program:
        """Return a sender at the first end, or a receiver at the second."""
        port, core = PORTS[kind][end], self.cores[end]
        size, burst = self.options.frame_size, str(self.options.burst)
        if program == PKT_GEN:
            name = port if port.startswith("vale") else f"netmap:{port}"
            options = [str(self.pkt_gen), "-i", name, "-f", ("tx", "rx")[end], "-l", str(size - 4)]
            options += ["-b", burst, "-S", MACS[end], "-D", MACS[1 - end], "-w", "0"]
            return PktGen(options, core)
        options = ["--frame-size", str(size), "--idle", self.options.idle]
        options += ["--src-mac", MACS[end], "--dst-mac", MACS[1 - end]]
        if end == 0:
            options += ["--rate", "max", "--burst", burst]
        return Traffic(self.engine, ("sender", "receiver")[end], [f"netmap:{port}"], options, core)

    def run(self, kind: str, case: str, program: str) -> Run:
        """Measure once; the receiver listens before frames are sent."""
        sends = OURS if case == "receiver" else program
        receives = PKT_GEN if case == "sender" else program
        running: list[Program] = []
        try:
            for end, program_name in ((1, receives), (0, sends)):
                running.append(self.program(program_name, kind, end))
                running[-1].start()
            time.sleep(WARM_UP_S)
            counted = running[1 if case == "sender" else 0]
            counter = "tx_offered" if case == "sender" else "rx_frames"
            run = observe(
                running,
                lambda: counted.frames(counter),
                self.options.seconds,
                counted.process.worker_ran_ns,
            )
            for each in reversed(running):
                each.finish()
            return run
        finally:
            for each in running:
                each.process.kill()


def compare(bench: Bench, kind: str, case: str) -> None:
    """Measure both programs alternately, and print their line."""
    options = bench.options
    runs: dict[str, list[Run]] = {OURS: [], PKT_GEN: []}
    for _ in range(options.runs):
        for program in random.sample(list(runs), len(runs)):
            attempt = partial(bench.run, kind, case, program)
            runs[program].append(least_disturbed(attempt, options.disturbed))
    print(f"{kind:<6}{show(summary(case, PKT_GEN, runs, options.disturbed))}", flush=True)


def find_pkt_gen(given: Path | None) -> Path:
    """Return the named program. Exit with a remedy without it."""
    named = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is None:
        sys.exit(f"no pkt-gen is named: set {VARIABLE} or --pkt-gen (netmap's apps/pkt-gen)")
    if not os.access(named, os.X_OK):
        sys.exit(f"{named} is not a program: build netmap's apps/pkt-gen")
    return named.resolve()


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = common_options(__doc__, "the sending end's core and the receiving one's")
    add = parser.add_argument
    add("--pkt-gen", type=Path, help=f"netmap's pkt-gen (default: {VARIABLE})")
    add("--port", choices=PORTS, action="append", help="repeatable; default: both")
    add("--case", choices=CASES, action="append", help="repeatable; default: all three")
    add("--idle", choices=("poll", "yield", "sleep"), default="poll", help="of the engine")
    return parser.parse_args()


def main() -> None:
    """Check the requirements, measure, print."""
    options = arguments()
    pkt_gen = find_pkt_gen(options.pkt_gen)
    if not DEVICE.exists():
        sys.exit(f"no {DEVICE}: load netmap.ko, or run `tools/vm-tests -k pkt_gen`")
    bench = Bench(options, pkt_gen, two_cores(options.cores))
    with preferred(options.priority):
        print(f"netmap, {options.frame_size} B, burst {options.burst}; rates in Mpps")
        print(
            "port  case           ours    spread  opponent        Mpps    spread   ratio"
            "  disturbed",
            flush=True,
        )
        for kind in options.port or PORTS:
            for case in options.case or CASES:
                compare(bench, kind, case)


if __name__ == "__main__":
    try:
        main()
    except ProgramError as failure:
        sys.exit(str(failure))
