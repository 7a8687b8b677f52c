#!/usr/bin/env python3
"""Compares the traffic engine with other generators and the kernel's floors, in one table.

    bench/engine/run.py                       all parts, 5 rounds each: about 20 minutes
    bench/engine/run.py --within 100          as many runs as fit into 100 s; call it again
    bench/engine/run.py --part receiver       parts with this in their name (repeatable)
    bench/engine/run.py --list                the parts and how often each has been run
    bench/engine/run.py --write --within 840  write the table of docs/engine-benchmark.md, of one
    call bench/engine/run.py --show                only print the table of all runs so far

Loops that only move descriptors are compared once they are built: ninja -C build floors.

Parts (parts.py) are a port kind and a case: virtio-user, vhost and memif against dpdk-testpmd (and
Pktgen-DPDK if SWITCHMARK_PKTGEN names it), kinds of traffic against the simplest, kernel devices
against DPDK's drivers, plain loops, iperf3 and floors (loops that only make the system call). With
another --frame-size, --burst or --queue-size they are other parts with that name.

Every run is one line of a file (--results), written when it ends: an interrupted call loses one
run, and the next call continues with the parts that have the fewest runs. A round is one run of
each program of a part, in random order. The table has the runs of the present engine (by its hash);
other runs stay in the file and are not used.

  medians of the rates (Mpps); for kernel senders per second of their CPU time, which other
  programs on the core do not change, so that all of their runs count
  ratio    of the medians; `=` if its 95 % interval (Welch, logarithms) contains 1
  spread   half the distance between the quartiles, of the median
  target   the smallest ratio that is required, and whether it is reached: stated from three runs
           on, and not missed if the interval reaches it
  runs     that count, and all runs: a run of which other programs took more than --disturbed
           (waiting for a core, steal) does not count; if fewer than three are left, the least
           disturbed three count, the line is marked `*`, and the target is undecided
  cores    `near` while the two cores share a cache (cores.py), otherwise `far`: the host moves
           virtual cores, and programs that move cache lines between cores are twice as fast while
           they are near. A run in which the cores moved does not count

Needs root, two cores, about 400 MB of free hugepages, dpdk-testpmd and the built engine.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import argparse
import os
import random
import tempfile
import time
from collections.abc import Sequence

from cores import distance_ns
from parts import Part, Setting, every_part
from plain import compile_all
from programs import ProgramError
from runs import Results
from setting import find_engine, preferred, two_cores
from table import show, write

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "engine-benchmark.md"
RESULTS = Path("results/engine-benchmark.jsonl")
WRITTEN = tuple(
    f"{port} {case}"
    for port in ("virtio-user", "vhost", "memif")
    for case in ("sender", "receiver", "forwarder", "wire", "flows")
)
WRITTEN_ROUNDS = 30  # or as many as the time allows
RUN_AT_MOST_S = 8.0  # maximum time of a run with its preparation


def measure(
    parts: Sequence[Part],
    results: Results,
    setting: Setting,
    rounds: int,
    within_s: float | None,
) -> None:
    """Run the parts with the fewest runs, until all have their rounds or the time is over."""
    end_s = None if within_s is None else time.monotonic() + within_s
    failed: set[str] = set()
    while True:
        open_parts = [
            part for part in parts if part.name not in failed and results.rounds(part) < rounds
        ]
        if not open_parts:
            return
        part = min(open_parts, key=results.rounds)
        fewest = results.rounds(part)
        waiting = [one for one in part.programs if len(results.of(part.name, one)) == fewest]
        for program in random.sample(waiting, len(waiting)):
            if end_s is not None and time.monotonic() + RUN_AT_MOST_S > end_s:
                return
            distance = distance_ns(setting.built.get("distance"), setting.cores)
            try:
                sample = part.measure(program)
            except ProgramError as failure:
                print(f"{part.name}: {program}: left out: {failure}", file=sys.stderr)
                failed.add(part.name)
                break
            after = distance_ns(setting.built.get("distance"), setting.cores)
            results.add(part.name, program, sample, distance, after)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--engine", type=Path, help="the binary (default: the one that the bench uses)")
    add("--part", action="append", default=[], metavar="TEXT", help="parts with this in their name")
    add("--rounds", type=int, default=5, help="runs of every program (default 5)")
    add("--within", type=float, metavar="SECONDS", help="stop in time; call again to go on")
    add("--seconds", type=float, default=0.5, help="measured time of a run (default 0.5)")
    add("--results", type=Path, default=RESULTS)
    add("--frame-size", type=int, default=64, help="bytes with FCS (default 64)")
    add("--burst", type=int, default=32, help="frames a burst, all programs (default 32)")
    add("--queue-size", type=int, default=256, help="descriptors a DPDK port's ring (default 256)")
    add("--cores", help="the measured program's core and the other one, e.g. 0,1")
    add(
        "--disturbed",
        type=float,
        default=0.03,
        help="share of a run that other programs may take (default 0.03; reading the programs' "
        "counters takes up to 0.02 if there are no other cores)",
    )
    add("--list", action="store_true", help="name the parts and stop")
    add("--show", action="store_true", help="print the table and stop")
    add("--write", action="store_true", help="measure DPDK ports anew, and write docs' table")
    add("--markdown", action="store_true", help="the table as Markdown")
    add("--priority", action="store_true", help="let this session have the cores before others")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = arguments()
    engine = find_engine(options.engine)
    if options.write:  # the runs of one call, in a separate file
        if options.results == RESULTS:
            begun = time.strftime("%Y%m%d-%H%M%S")
            options.results = RESULTS.with_stem(f"{RESULTS.stem}-{begun}")
        options.rounds = max(options.rounds, WRITTEN_ROUNDS)
    results = Results(options.results, engine)
    with tempfile.TemporaryDirectory(prefix="sm-bench-") as folder:
        (sockets := Path(folder) / "sockets").mkdir()
        quiet = options.list or options.show
        built = {} if quiet else compile_all(Path(folder))
        setting = Setting(
            engine, two_cores(options.cores), options.seconds, sockets, built,
            options.frame_size, options.burst, options.queue_size,
        )  # fmt: skip
        texts = options.part or (list(WRITTEN) if options.write else [""])
        parts = [part for part in every_part(setting) if any(text in part.name for text in texts)]
        if options.list:
            for part in parts:
                print(f"{part.name:<24}{results.rounds(part):>3}  {', '.join(part.programs)}")
            return
        if not options.show:
            if os.geteuid() != 0:
                sys.exit("needs root, for network namespaces")
            with preferred(options.priority):
                measure(parts, results, setting, options.rounds, options.within)
        show(parts, results, options.disturbed, markdown=options.markdown)
        if options.write:
            write(parts, results, options.disturbed, DOCUMENT)


if __name__ == "__main__":
    try:
        main()
    except ProgramError as failure:
        sys.exit(str(failure))
