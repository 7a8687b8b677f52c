"""Runs of two programs: a single measurement, the least disturbed of a few, and a line for all of
them: medians, their ratio, the spread, and whether the interval of the ratio contains 1 (a tie).
run.py has a separate table, which also has the distance of the cores."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from programs import Process, Reading, stolen_s

OURS = "switchmark-traffic"
ATTEMPTS = 3


class Running(Protocol):
    """A running program."""

    process: Process


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run: rate in frames/s, and the share of its time that other programs took."""

    rate_pps: float
    disturbed: float
    cpu_rate_pps: float | None = None  # frames per second of CPU time of the measured thread


def observe(
    running: Sequence[Running],
    read: Callable[[], Reading],
    seconds: float,
    ran_ns_so_far: Callable[[], int],
) -> Run:
    """Return the rate between two readings of a counter while these programs run, also per CPU time
    of the measured program."""
    waited_ns, stolen = _waited_ns(running), stolen_s()
    ran_ns = ran_ns_so_far()
    first = read()
    time.sleep(seconds)
    last = read()
    ran_ns = ran_ns_so_far() - ran_ns
    taken_s = (_waited_ns(running) - waited_ns) / 1e9 + stolen_s() - stolen
    frames, span_s = last.frames - first.frames, last.time_s - first.time_s
    return Run(frames / span_s, taken_s / span_s, frames * 1e9 / max(ran_ns, 1))


def _waited_ns(running: Sequence[Running]) -> int:
    return sum(program.process.waited_ns() for program in running)


def least_disturbed(measure: Callable[[], Run], limit: float) -> Run:
    """Return the least disturbed of up to three attempts; the first attempt within the limit ends
    them."""
    runs: list[Run] = []
    while not runs or (runs[-1].disturbed > limit and len(runs) < ATTEMPTS):
        runs.append(measure())
    return min(runs, key=lambda run: run.disturbed)


def spread(rates: list[float]) -> float:
    """Return half the distance between the quartiles, as a share of the median."""
    if len(rates) < 2:
        return 0.0
    low, _, high = statistics.quantiles(rates, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(rates)


def interval(
    own_rates: Sequence[float], other_rates: Sequence[float]
) -> tuple[float, float] | None:
    """Return the 95 % interval of the ratio of two programs' rates, by the statistics of the bench
    (Welch's t on logarithms); None if a program has fewer than two runs."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    try:
        from switchmark.statistics.comparison import ratio_of
    finally:
        sys.path.pop(0)
    found = ratio_of(other_rates, own_rates)
    return None if found.low is None or found.high is None else (found.low, found.high)


def is_tie(bounds: tuple[float, float] | None) -> bool:
    """Return True if neither program is proven to be faster."""
    return bounds is None or bounds[0] <= 1 <= bounds[1]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table; spreads are shares of the median."""

    case: str
    opponent: str
    ours_pps: float
    theirs_pps: float
    ratio: float
    ours_spread: float
    theirs_spread: float
    tie: bool
    disturbed_runs: int
    runs: int
    rates_pps: dict[str, list[float]]


def summary(case: str, opponent: str, runs: dict[str, list[Run]], limit: float) -> Line:
    """Return medians, ratio and spread of a case against one opponent."""
    runs = {program: runs[program] for program in (OURS, opponent)}
    rates = {program: [run.rate_pps for run in runs[program]] for program in runs}
    medians = {program: statistics.median(rates[program]) for program in rates}
    spreads = {program: spread(rates[program]) for program in rates}
    ratio = medians[OURS] / medians[opponent]
    every = [run for program in runs for run in runs[program]]
    return Line(
        case=case,
        opponent=opponent,
        ours_pps=medians[OURS],
        theirs_pps=medians[opponent],
        ratio=ratio,
        ours_spread=spreads[OURS],
        theirs_spread=spreads[opponent],
        tie=is_tie(interval(rates[OURS], rates[opponent])),
        disturbed_runs=sum(run.disturbed > limit for run in every),
        runs=len(every),
        rates_pps=rates,
    )


def show(line: Line) -> str:
    """Return a line as text."""
    return (
        f"{line.case:<10}{line.ours_pps / 1e6:>9.2f}{100 * line.ours_spread:>8.1f} %"
        f"  {line.opponent:<13}{line.theirs_pps / 1e6:>7.2f}{100 * line.theirs_spread:>8.1f} %"
        f"{line.ratio:>8.2f}   {'tie' if line.tie else '   '}"
        f"{line.disturbed_runs:>6} of {line.runs}"
    )
