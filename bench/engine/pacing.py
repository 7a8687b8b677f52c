#!/usr/bin/env python3
"""Shows whether the engine's sender keeps its schedule: a table of rates and lateness.

For each port (paced.py): first the ceiling (`--rate max`), in bursts and of single frames, then
rates from 1 k to 80 % of it, each in --runs runs. Frames go singly up to 1 Mpps, as long as that
is at most half of the port's rate for single frames, and in bursts above. For every rate:

  off       how far the mean rate differs from the requested rate, by CLOCK_MONOTONIC, in the worst
            run; target: 0.1 %
  p99       lateness below which 99 % of the bursts stay, median of the runs; target: 1 us
  p99.9     the same for 99.9 %; target: 10 us
  looking   the same two for bursts that did not fall due while the core was away, by the sender's
            own clock (`attentive` in its result), and their share of all bursts: they show the
            quality of the sender also if the machine has no core for it
  floor     p99.9 of a loop that only reads the clock on that core (stalls.c), before each of these
            runs: no program there is less late
  dropped   frames skipped because they were due too long ago, in the worst run
  stall     how far behind the oldest of those was: nothing was sent for so long, as the sender had
            no core, or its port accepted nothing because its peer had none. 0: every due frame was
            sent

All targets are met (`=`), or met by the mean and by the bursts with the sender on its core (`~`:
the machine causes the others, as it does not report all stolen time as steal), or not (`!`).

A run is *disturbed* if the hypervisor took time from the sender's core (steal), if the sender
waited for its core (schedstat), if interrupts took more than 1 % of it (on veth devices, where soft
interrupts carry the sender's own frames: hard ones), if the peer waited for its core and the ring
filled (`full`: refused transmit calls), or if the ceiling is that of cores which share a cache and
they did not do so all the time (cores.py). Disturbed runs are repeated, up to --attempts
altogether, whatever their figures; all others count. A rate with only disturbed runs is shown by
its least disturbed run with a `*` and does not count. Exit code: 0 if all that counts is `=` or
`~`, 1 if not, 3 if nothing counts.

It needs an unshared core for the sender, the built engine, for DPDK ports free hugepages, for veth
devices root.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import argparse
import json
import statistics
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from typing import Any

from cores import RESOLVED_BY_PLAN, Cores, distance_ns, where
from paced import PORTS, Pair, pair
from plain import compile_all
from programs import ProgramError
from setting import find_engine, preferred, two_cores

WANTED_OFF, WANTED_P99_NS, WANTED_P999_NS = 0.001, 1_000, 10_000
DISTURBED = 0.0005  # share of the run: waiting for the core, and stolen time
INTERRUPTS = 0.01  # share of the run in interrupts on the sender's core
CEILING_S = 0.5
FLOOR_S = 0.1
FRAMES_AT_LEAST = 2000  # a run has at least so many, up to LONGEST_S, so that p99.9 is meaningful
LONGEST_S = 2.0
SHARE_OF_CEILING = 0.8
SINGLE_BELOW_PPS = 1e6  # frames go singly up to here, in bursts above,
SINGLE_BELOW_CEILING = 0.5  # and up to this share of the port's rate for single frames
LOOKING_AT_LEAST = 0.9  # share of the bursts that must be the sender's own for a verdict
CEILING_RUNS = 3


@dataclass(frozen=True, slots=True)
class Paced:
    """One run at one rate."""

    real_pps: float
    off: float
    p99_ns: int
    p999_ns: int
    max_ns: int
    dropped: int
    stall_ns: int
    stolen: float  # shares of the run
    waited: float
    peer_waited: float
    interrupts: float
    refused: float  # share of transmit calls with a full ring
    looking_p99_ns: int
    looking_p999_ns: int
    looking: float  # share of the bursts
    away: float
    floor_p999_ns: float
    moved: bool = False  # the cores moved since the ceiling was measured

    @property
    def taken(self) -> float:
        """Share of the run that other programs took."""
        return self.stolen + self.waited + self.peer_waited

    @property
    def disturbed(self) -> bool:
        """Return True if others took time from the sender, or from its peer with a full ring."""
        peer = self.peer_waited > DISTURBED and self.refused > 0
        taken = self.stolen + self.waited > DISTURBED or self.interrupts > INTERRUPTS
        return taken or peer or self.moved


@dataclass(frozen=True, slots=True)
class Row:
    """A rate on a port: all undisturbed runs, otherwise the least disturbed run."""

    port: str
    asked_pps: int
    burst: int
    runs: tuple[Paced, ...]
    run_count: int  # number of runs, including disturbed runs
    disturbed: bool

    def median(self, name: str) -> float:
        """Return the median of a figure over the runs."""
        return float(statistics.median(getattr(run, name) for run in self.runs))

    def worst(self, name: str) -> float:
        """Return the largest value of a figure."""
        return float(max(getattr(run, name) for run in self.runs))

    @property
    def holds(self) -> bool:
        """Return True if all targets are met."""
        return self._held("p99_ns", "p999_ns")

    @property
    def own_holds(self) -> bool:
        """Return True if the mean and the bursts of a sender with a core meet the targets."""
        return (
            self._held("looking_p99_ns", "looking_p999_ns")
            and self.median("looking") >= LOOKING_AT_LEAST
        )

    def _held(self, p99: str, p999: str) -> bool:
        return (
            self.worst("off") <= WANTED_OFF
            and self.median(p99) <= WANTED_P99_NS
            and self.median(p999) <= WANTED_P999_NS
        )


def floor_of(stalls: Path | None, core: int) -> dict[str, float]:
    """Return the output of stalls.c for this core now; nothing without the program."""
    if stalls is None:
        return {"p999_ns": 0.0}
    done = subprocess.run(
        ["taskset", "-c", str(core), str(stalls), str(FLOOR_S)],
        capture_output=True, text=True, check=True, timeout=10,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def paced(asked_pps: float, result: dict[str, Any], floor: dict[str, float], moved: bool) -> Paced:
    """Return the figures of a result; `moved`: the cores moved since the ceiling was measured."""
    real_pps = result["totals"]["tx_offered"] * 1e9 / result["duration_ns"]
    pacing = result["pacing"]
    return Paced(
        real_pps=real_pps,
        off=abs(real_pps / asked_pps - 1),
        p99_ns=pacing["late_p99_ns"],
        p999_ns=pacing["late_p999_ns"],
        max_ns=pacing["late_max_ns"],
        dropped=result["totals"]["tx_dropped"],
        stall_ns=pacing["longest_stall_ns"],
        stolen=result["stolen"],
        waited=result["cpu"]["run_delay_ns"] / result["duration_ns"],
        peer_waited=result["peer_waited"],
        refused=result["totals"]["ring_full_polls"] / max(1, result["totals"]["tx_polls"]),
        interrupts=result["interrupts"],
        looking_p99_ns=pacing["attentive"]["late_p99_ns"],
        looking_p999_ns=pacing["attentive"]["late_p999_ns"],
        looking=pacing["attentive"]["bursts"] / max(1, pacing["bursts"]),
        away=pacing["attentive"]["away_ns"] / result["duration_ns"],
        floor_p999_ns=floor["p999_ns"],
        moved=moved,
    )


def rates_up_to(ceiling_pps: float) -> list[int]:
    """Return 1 k, 10 k, ... and 20, 50 and 80 % of the ceiling."""
    top = SHARE_OF_CEILING * ceiling_pps
    decades = [10**power for power in range(3, 10) if 10**power < 0.1 * ceiling_pps]
    return [*decades, round(0.25 * top), round(0.625 * top), round(top)]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The maximum rates of a port, and the distance of its cores at that time."""

    burst_pps: float
    single_pps: float  # rate of single frames
    cores: Cores

    def burst(self, asked_pps: int, burst: int) -> int:
        """Return the frames of a burst at a rate."""
        most = min(SINGLE_BELOW_PPS, SINGLE_BELOW_CEILING * self.single_pps)
        return 1 if asked_pps <= most else burst


class Bench:
    """Runs rates on two cores."""

    def __init__(
        self, options: argparse.Namespace, cores: tuple[int, int], built: dict[str, Path]
    ) -> None:
        self.options = options
        self.cores = cores
        self.built = built

    def run(
        self, programs: Pair, rate: str, burst: int, seconds: float
    ) -> tuple[dict[str, Any], Cores]:
        """Return the result of one trial, and the distance of the cores."""
        program = self.built.get("distance") if programs.peer else None
        before = distance_ns(program, self.cores)
        result = programs.run(rate, burst, seconds, self.cores)
        return result, where(before, distance_ns(program, self.cores))

    def once(self, programs: Pair, asked_pps: int, ceiling: Ceiling) -> Paced:
        """Run once, long enough for the rate."""
        seconds = min(LONGEST_S, max(self.options.seconds, FRAMES_AT_LEAST / asked_pps))
        floor = floor_of(self.built.get("stalls"), self.cores[0])
        burst = ceiling.burst(asked_pps, self.options.burst)
        result, cores = self.run(programs, str(asked_pps), burst, seconds)
        return paced(asked_pps, result, floor, ceiling.cores == "near" and cores != "near")

    def ceiling(self, programs: Pair) -> Ceiling:
        """Return the rates of the best of some runs, as disturbances only lower them; for cores
        that are far from each other if they were in any run, since near cores reach everything that
        far cores reach."""
        found: dict[Cores, dict[int, float]] = {}
        for burst in (self.options.burst, 1) * CEILING_RUNS:
            result, cores = self.run(programs, "max", burst, CEILING_S)
            pps = result["totals"]["tx_offered"] * 1e9 / result["duration_ns"]
            best = found.setdefault(cores, {})
            best[burst] = max(best.get(burst, 0.0), pps)
        for cores in (*RESOLVED_BY_PLAN, "moved"):
            rates = found.get(cores, {})
            if self.options.burst in rates:
                singly = rates.get(1) or min(one[1] for one in found.values() if 1 in one)
                return Ceiling(rates[self.options.burst], singly, cores)
        raise ProgramError("the cores moved in every run")  # in all runs

    def rate(self, programs: Pair, port: str, asked_pps: int, ceiling: Ceiling) -> Row:
        """Run a rate repeatedly."""
        undisturbed: list[Paced] = []
        least: Paced | None = None
        attempts = 0
        while attempts < self.options.attempts and len(undisturbed) < self.options.runs:
            attempts += 1
            found = self.once(programs, asked_pps, ceiling)
            if not found.disturbed:
                undisturbed.append(found)
            elif least is None or found.taken < least.taken:
                least = found
        assert undisturbed or least is not None
        runs = tuple(undisturbed) if undisturbed or least is None else (least,)
        burst = ceiling.burst(asked_pps, self.options.burst)
        return Row(port, asked_pps, burst, runs, attempts, not undisturbed)

    def port(self, port: str) -> list[Row]:
        """Measure all rates of one port."""
        rows: list[Row] = []
        prints = not self.options.json
        with pair(port, find_engine(self.options.engine), self.options.frame_size) as programs:
            ceiling = self.ceiling(programs)
            rates = [int(rate) for rate in self.options.rates.split(",") if rate]
            if prints:
                print(
                    f"\n{port}: ceiling {ceiling.burst_pps / 1e6:.2f} Mpps, of single frames "
                    f"{ceiling.single_pps / 1e6:.2f}, {self.options.frame_size} B"
                    + (f", cores {ceiling.cores}" if programs.peer else "")
                )
                print(HEAD)
            for rate in rates or rates_up_to(ceiling.burst_pps):
                rows.append(self.rate(programs, port, rate, ceiling))
                if prints:
                    print(show(rows[-1]), flush=True)
        return rows


HEAD = (
    "   asked pps burst        off   p99 us   p99.9 looking p99   p99.9   of all  floor"
    "  dropped stall us  stolen  waited    peer    irqs    full  runs"
)


def show(row: Row) -> str:
    """Return a line of the table."""
    mark = "*" if row.disturbed else "=" if row.holds else "~" if row.own_holds else "!"
    return (
        f"{row.asked_pps:>12,.0f}{row.burst:>6}{100 * row.worst('off'):>9.4f} %"
        f"{row.median('p99_ns') / 1e3:>9.2f}{row.median('p999_ns') / 1e3:>8.2f}"
        f"{row.median('looking_p99_ns') / 1e3:>12.2f}"
        f"{row.median('looking_p999_ns') / 1e3:>8.2f}{100 * row.median('looking'):>7.1f} %"
        f"{row.median('floor_p999_ns') / 1e3:>7.1f}{row.worst('dropped'):>9,.0f}"
        f"{row.worst('stall_ns') / 1e3:>9.0f}{100 * row.worst('stolen'):>6.2f} %"
        f"{100 * row.worst('waited'):>6.2f} %{100 * row.worst('peer_waited'):>6.1f} %"
        f"{100 * row.worst('interrupts'):>6.2f} %{100 * row.worst('refused'):>6.2f} %"
        f"{len(row.runs):>3} of {row.run_count} {mark}"
    )


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--engine", type=Path, help="the binary (default: the one that the bench uses)")
    add("--port", choices=PORTS, action="append", help="repeatable (default: null)")
    add("--seconds", type=float, default=0.25, help="length of a run at least (default 0.25)")
    add(
        "--rates",
        default="",
        help="frames a second, such as 1000,100000 (default: up to 80 %% of ceiling)",
    )
    add("--frame-size", type=int, default=64, help="bytes with FCS (default 64)")
    add("--burst", type=int, default=32, help="frames a burst above 1 Mpps (default 32)")
    add("--cores", help="the sender's core and the peer's (default: the first two)")
    add("--runs", type=int, default=3, help="undisturbed runs of a rate (default 3)")
    add("--attempts", type=int, default=6, help="runs of a rate at most (default 6)")
    add("--priority", action="store_true", help="let this session have the cores before others")
    add("--json", action="store_true", help="print one JSON document instead of the table")
    return parser.parse_args()


def main() -> int:
    """Measure every port; the exit code is the verdict."""
    options = arguments()
    with preferred(options.priority), tempfile.TemporaryDirectory(prefix="sm-pace-") as folder:
        bench = Bench(options, two_cores(options.cores), compile_all(Path(folder)))
        rows = [row for port in options.port or ["null"] for row in bench.port(port)]
    counted = [row for row in rows if not row.disturbed]
    if options.json:
        rows_as_json = [
            asdict(row) | {"holds": row.holds, "own_holds": row.own_holds} for row in rows
        ]
        print(json.dumps({"rows": rows_as_json}))
    else:
        met = sum(row.holds for row in counted)
        met_by_sender = sum(row.own_holds and not row.holds for row in counted)
        print(
            f"\n{met} of {len(counted)} undisturbed rates meet the targets, {met_by_sender} more "
            f"apart from delays of the machine, of {len(rows)} altogether"
        )
    if not counted:
        return 3
    return 0 if all(row.holds or row.own_holds for row in counted) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ProgramError as failure:
        sys.exit(str(failure))
