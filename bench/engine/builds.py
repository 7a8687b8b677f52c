#!/usr/bin/env python3
"""What one build of the engine costs beside another: the same traffic by both, in turns.

    bench/engine/builds.py BEFORE AFTER [--runs 15] [--port null --port virtio-user]

Runs are pairs, in random order within each; a ratio is of what one in twenty samples of 2 ms
reaches, in which both ends had their cores, so that it holds on a machine that is busy, too. Each
row gives the median of the pairs' ratios (above 1: AFTER is faster) and its quartiles.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import argparse
import random
import statistics
import tempfile

from frames import Bench

KINDS = (("sender", ""), ("sender", "--frame-size imix"), ("receiver", ""))
WINDOW_MS = 2.0


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--port", action="append", choices=("null", "virtio-user", "vhost"))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--other-core", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        cores = (asked.core, asked.other_core)
        before, after = (
            Bench(engine.resolve(), Path(name), asked.seconds, cores, WINDOW_MS)
            for engine in (asked.before, asked.after)
        )
        for port in asked.port or ["null"]:
            for role, options in KINDS:
                print(row(before, after, asked.runs, (role, port, options)), flush=True)


def row(before: Bench, after: Bench, runs: int, asked: tuple[str, str, str]) -> str:
    """Both, so many times, in turns."""
    ratios, rates = [], []
    for _ in range(runs):
        pair = {}
        for bench in random.sample((before, after), 2):
            pair[bench is after] = bench.run(*asked).rate_pps
        ratios.append(pair[True] / pair[False])
        rates.append(pair[True])
    low, middle, high = statistics.quantiles(ratios, n=4)
    role, port, options = asked
    return (
        f"{port:12s} {role:9s} {options or '64 B':20s} {statistics.median(rates) / 1e6:8.2f} Mpps "
        f" after / before {middle:.3f} [{low:.3f}, {high:.3f}]"
    )


if __name__ == "__main__":
    main()
