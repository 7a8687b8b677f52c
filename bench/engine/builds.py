#!/usr/bin/env python3
"""Compares two builds of the engine: the same traffic by both, in alternating runs.

    bench/engine/builds.py BEFORE AFTER [--runs 15] [--port null --port virtio-user]

Runs are pairs in random order. A ratio compares the 95th percentile of 2 ms samples, in which both
ends had their cores, so that it is also valid on a busy machine. Each row has the ratio of the
pairs (above 1: AFTER is faster) with its interval of 95 % confidence, and their quartiles.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import argparse
import math
import random
import statistics
import tempfile

from frames import Bench

from switchmark.statistics.paired import LogRatio, ratio_of

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
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        cores = (arguments.core, arguments.other_core)
        before, after = (
            Bench(engine.resolve(), Path(name), arguments.seconds, cores, WINDOW_MS)
            for engine in (arguments.before, arguments.after)
        )
        for port in arguments.port or ["null"]:
            for role, options in KINDS:
                print(row(before, after, arguments.runs, (role, port, options)), flush=True)


def row(before: Bench, after: Bench, runs: int, case: tuple[str, str, str]) -> str:
    """Run both builds in pairs, and return the row of this case."""
    ratios, rates = [], []
    for _ in range(runs):
        pair = {}
        for bench in random.sample((before, after), 2):
            pair[bench is after] = bench.run(*case).rate_pps
        ratios.append(pair[True] / pair[False])
        rates.append(pair[True])
    lower, _, upper = statistics.quantiles(ratios, n=4)
    ratio = ratio_of([LogRatio(pair, math.log(one)) for pair, one in enumerate(ratios)])
    found = f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else "unknown"
    role, port, options = case
    return (
        f"{port:12s} {role:9s} {options or '64 B':20s} {statistics.median(rates) / 1e6:8.2f} Mpps "
        f" after / before {found}, quartiles {lower:.3f} and {upper:.3f}"
    )


if __name__ == "__main__":
    main()
