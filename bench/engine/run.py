#!/usr/bin/env python3
"""The traffic engine beside its peers and the kernel's floors: every comparison, one table.

    bench/engine/run.py                       all parts, 5 rounds each: some 20 minutes
    bench/engine/run.py --within 100          as many runs as fit into 100 s; call it again
    bench/engine/run.py --part receiver       parts with this in their name (repeatable)
    bench/engine/run.py --list                the parts and how often each has been run
    bench/engine/run.py --show                the table of what has been measured, nothing more

Parts (parts.py) are a port kind and a case: virtio-user, vhost and memif against dpdk-testpmd (and
Pktgen-DPDK where SWITCHMARK_PKTGEN names it), kinds of traffic against the plainest, kernel devices
against DPDK's drivers, plain loops, iperf3 and floors (loops that do nothing but the system call).
With another --frame-size, --burst or --queue-size they are other parts, of that name.

Every run is one line of a file (--results), written when it ends: a call that is interrupted loses
one run, and the next call goes on with what has been run least. A round is one run of each
program of a part, in random order. The table is of the runs of the engine as it is now (by its
hash); others stay in the file and are not looked at.

  medians of the rates (Mpps); of kernel senders a second of their own CPU time, which other
  programs on the core do not change, so that all of their runs count
  ratio    of the medians; `=` where it lies within the larger spread of 1
  spread   half the distance between the quartiles, of the median
  wanted   the least ratio that is asked for, and whether it is reached: said from three runs on,
           and not where less than the larger spread is missing
  runs     that count, of those made: a run of which others took more than --disturbed (waiting for
           a core, steal) does not; where fewer than three are left, the least disturbed three do,
           the line is marked `*`, and nothing is said of what is wanted
  cores    `near` while the two cores share a cache (cores.py), else `far`: virtual cores are moved
           about, and what is limited by lines between cores runs twice as fast while they are
           near. A run in which they moved is of neither and counts for neither

Needs root, two cores, about 400 MB of free hugepages, dpdk-testpmd and the built engine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from comparison import spread
from cores import SETTLED, Cores, distance_ns, where
from parts import Part, Row, Sample, Setting, every_part
from plain import compile_all
from programs import ProgramError
from setting import find_engine, preferred, two_cores

RUN_AT_MOST_S = 8.0  # what a run may take with everything around it
COUNT_AT_LEAST = 3


@dataclass(frozen=True, slots=True)
class Made:
    """One line of the file."""

    part: str
    program: str
    rate_pps: float
    disturbed: float
    cpu_rate_pps: float | None
    distance_ns: float | None  # of the two cores, before
    engine: str
    after_ns: float | None = None  # and after

    @property
    def cores(self) -> Cores:
        """Where the cores were all the time."""
        return where(self.distance_ns, self.after_ns)


class Results:
    """The file of runs, and those of this engine."""

    def __init__(self, path: Path, engine: Path) -> None:
        self.path = path
        self.engine = hashlib.sha256(engine.read_bytes()).hexdigest()[:12]
        text = path.read_text() if path.exists() else ""
        whole, _, cut_off = text.rpartition("\n")
        if cut_off:  # the call before was ended while it wrote
            path.write_text(whole + "\n" if whole else "")
        every = [Made(**json.loads(line)) for line in whole.splitlines()]
        self.made = [one for one in every if one.engine == self.engine]
        self.others = len(every) - len(self.made)

    def add(
        self,
        part: str,
        program: str,
        sample: Sample,
        distance_ns: float | None,
        after_ns: float | None,
    ) -> None:
        """Keep a run."""
        self.made.append(
            Made(
                part,
                program,
                **asdict(sample),
                distance_ns=distance_ns,
                engine=self.engine,
                after_ns=after_ns,
            )
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(self.made[-1])) + "\n")

    def of(self, part: str, program: str) -> list[Made]:
        """The runs of a program."""
        return [one for one in self.made if (one.part, one.program) == (part, program)]

    def rounds(self, part: Part) -> int:
        """How often all of its programs have been run."""
        return min(len(self.of(part.name, program)) for program in part.programs)


def counting(runs: Sequence[Made], limit: float) -> tuple[list[Made], bool]:
    """Those that count, and whether they are undisturbed."""
    left_alone = [one for one in runs if one.disturbed <= limit]
    if len(left_alone) >= min(COUNT_AT_LEAST, len(runs)):
        return left_alone, True
    return sorted(runs, key=lambda one: one.disturbed)[:COUNT_AT_LEAST], False


def line(part: Part, row: Row, results: Results, cores: Cores, limit: float) -> str | None:
    """A line of the table; None: nothing has been run with the cores there."""
    words: list[str] = []
    medians, spreads, whole, fewest = [], [], True, COUNT_AT_LEAST
    for program in (row.above, row.below):
        made = [one for one in results.of(part.name, program) if one.cores == cores]
        if not made:
            return None
        runs, alone = (made, True) if row.hardy else counting(made, limit)
        rates = [(one.cpu_rate_pps if row.of_cpu else None) or one.rate_pps for one in runs]
        medians.append(statistics.median(rates))
        spreads.append(spread(rates))
        whole, fewest = whole and alone, min(fewest, len(runs))
        words.append(f"{medians[-1] / 1e6:>8.2f}{100 * spreads[-1]:>6.1f} %")
        words.append(f"{len(runs):>3} of {len(made):<3}")
    ratio = medians[0] / medians[1]
    tie = "=" if abs(ratio - 1) <= max(spreads) else " "
    wanted = ""
    if row.wanted is not None:
        enough = fewest >= COUNT_AT_LEAST
        wanted = f"{row.wanted:.2f} {_verdict(ratio, row.wanted, max(spreads), whole, enough)}"
    of_cpu = " a CPU s" if row.of_cpu else ""
    return (
        f"{part.name:<22}{cores:<5}{row.above:<19}{words[0]}{words[1]}"
        f"  {row.below:<23}{words[2]}{words[3]}{ratio:>7.2f} {tie} {'' if whole else '*':<2}"
        f"{wanted:<17}{of_cpu}"
    )


def _verdict(ratio: float, wanted: float, noise: float, whole: bool, enough: bool) -> str:
    if not whole:
        return "(disturbed)"
    if not enough:
        return "(too few)"
    if round(ratio, 2) >= wanted:
        return "reached"
    return "(undecided)" if wanted - ratio <= noise * ratio else "MISSED"


def show(parts: Sequence[Part], results: Results, limit: float) -> None:
    """The table."""
    print(
        "part                  cores                      Mpps  spread   runs"
        "                               Mpps  spread   runs   ratio      wanted"
    )
    for part in parts:
        for row in part.rows:
            for cores in SETTLED:
                text = line(part, row, results, cores, limit)
                if text is not None:
                    print(text)
    moved = sum(one.cores == "moved" for one in results.made)
    if moved:
        print(f"({moved} of {len(results.made)} runs count for nothing: the cores moved in them)")
    if results.others:
        print(f"({results.others} runs in {results.path} are of other builds of the engine)")


def measure(
    parts: Sequence[Part],
    results: Results,
    setting: Setting,
    rounds: int,
    within_s: float | None,
) -> None:
    """Run what has been run least, until all have their rounds or the time is up."""
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
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--engine", type=Path, help="the binary (default: found in build*/ or on PATH)")
    add("--part", action="append", default=[], metavar="TEXT", help="parts with this in their name")
    add("--rounds", type=int, default=5, help="runs of every program (default 5)")
    add("--within", type=float, metavar="SECONDS", help="stop in time; call again to go on")
    add("--seconds", type=float, default=0.5, help="measured time of a run (default 0.5)")
    add("--results", type=Path, default=Path("results/engine-benchmark.jsonl"))
    add("--frame-size", type=int, default=64, help="bytes with FCS (default 64)")
    add("--burst", type=int, default=32, help="frames a burst, all programs (default 32)")
    add("--queue-size", type=int, default=256, help="descriptors a DPDK port's ring (default 256)")
    add("--cores", help="the measured program's core and the other one, e.g. 0,1")
    add(
        "--disturbed",
        type=float,
        default=0.03,
        help="share of a run that others may take (default 0.03; reading the programs' counters "
        "takes up to 0.02 where there are no other cores)",
    )
    add("--list", action="store_true", help="name the parts and stop")
    add("--show", action="store_true", help="print the table and stop")
    add("--priority", action="store_true", help="let this session have the cores before others")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = arguments()
    engine = find_engine(options.engine)
    results = Results(options.results, engine)
    with tempfile.TemporaryDirectory(prefix="sm-bench-") as folder:
        (sockets := Path(folder) / "sockets").mkdir()
        quiet = options.list or options.show
        built = {} if quiet else compile_all(Path(folder))
        setting = Setting(
            engine, two_cores(options.cores), options.seconds, sockets, built,
            options.frame_size, options.burst, options.queue_size,
        )  # fmt: skip
        wanted = options.part or [""]
        parts = [part for part in every_part(setting) if any(text in part.name for text in wanted)]
        if options.list:
            for part in parts:
                print(f"{part.name:<24}{results.rounds(part):>3}  {', '.join(part.programs)}")
            return
        if not options.show:
            if os.geteuid() != 0:
                sys.exit("needs root, for network namespaces")
            with preferred(options.priority):
                measure(parts, results, setting, options.rounds, options.within)
        show(parts, results, options.disturbed)


if __name__ == "__main__":
    try:
        main()
    except ProgramError as failure:
        sys.exit(str(failure))
