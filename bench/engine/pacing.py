#!/usr/bin/env python3
"""Shows whether the engine's sender keeps its schedule: a table of rates and lateness.

For each port (paced.py): first the ceiling (`--rate max`), in bursts and of single frames, then
rates from 1 k to 80 % of it, each in --runs runs. Frames go singly up to 1 Mpps, as long as that
is at most half of the port's rate for single frames, and in bursts above. For every rate:

  off       how far the mean rate lies from the one asked, by CLOCK_MONOTONIC, in the worst run;
            wanted: 0.1 %
  p99       lateness that 99 % of the bursts stay below, median of the runs; wanted: 1 us
  p99.9     the same for 99.9 %; wanted: 10 us
  looking   the same two of the bursts that did not fall due while the core was somewhere else, by
            the sender's own clock (`attentive` in its result), and which share of all they are:
            they tell of the sender also where the machine has no core for it
  floor     p99.9 of a loop that only reads the clock on that core (stalls.c), run before each of
            these runs: nobody who runs there is less late
  dropped   frames given up because they were due too long ago, in the worst run
  stall     how far behind the oldest of those was: nothing was sent for so long, since the sender
            had no core, or its port took nothing because its peer had none. 0: every frame that
            was due has been sent

All that is wanted holds (`=`), or it holds of the mean and of the bursts that the sender was there
for (`~`: the others are the machine's, which does not report all that it takes as steal), or not
(`!`).

A run is *disturbed* when the hypervisor took time from the sender's core (steal), when the
sender waited for its core (schedstat), when interrupts took more than 1 % of it (on veth devices,
where soft interrupts carry the sender's own frames: hard ones), when the peer waited for its
core and the ring filled (`full`: transmit calls that were refused), or when the ceiling is that of
cores which share a cache and they did not do so all the time (cores.py). Disturbed runs are made
again, up to --attempts in all, whatever they showed; all others count, whatever they showed. A rate
without any of these is shown by its least disturbed run with a `*` and does not count. Exit code:
0 when all that counts is `=` or `~`, 1 when not, 3 when nothing could be counted.

Needs an unshared core for the sender, the built engine, for DPDK ports free hugepages, for veth
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
FRAMES_AT_LEAST = 2000  # a run is long enough for so many, up to LONGEST_S: p99.9 is to mean much
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
    refused: float  # share of transmit calls that met a full ring
    looking_p99_ns: int
    looking_p999_ns: int
    looking: float  # share of the bursts
    away: float
    floor_p999_ns: float
    moved: bool = False  # the ceiling is not that of where the cores were

    @property
    def taken(self) -> float:
        """Share of the run that others took."""
        return self.stolen + self.waited + self.peer_waited

    @property
    def disturbed(self) -> bool:
        """Return True if others took time from the sender, or from its peer with a full ring."""
        peer = self.peer_waited > DISTURBED and self.refused > 0
        taken = self.stolen + self.waited > DISTURBED or self.interrupts > INTERRUPTS
        return taken or peer or self.moved


@dataclass(frozen=True, slots=True)
class Row:
    """One rate on one port: all undisturbed runs, or else the least disturbed one."""

    port: str
    asked_pps: int
    burst: int
    runs: tuple[Paced, ...]
    made: int  # number of runs, including disturbed runs
    disturbed: bool

    def median(self, name: str) -> float:
        """Of a figure over the runs."""
        return float(statistics.median(getattr(run, name) for run in self.runs))

    def worst(self, name: str) -> float:
        """The largest of a figure."""
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
    """What stalls.c says of this core now; nothing without it."""
    if stalls is None:
        return {"p999_ns": 0.0}
    said = subprocess.run(
        ["taskset", "-c", str(core), str(stalls), str(FLOOR_S)],
        capture_output=True, text=True, check=True, timeout=10,
    )  # fmt: skip
    found: dict[str, float] = json.loads(said.stdout)
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
    """1 k, 10 k, ... and 20, 50 and 80 % of the ceiling."""
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
        """Frames a burst at a rate."""
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
        self, made: Pair, rate: str, burst: int, seconds: float
    ) -> tuple[dict[str, Any], Cores]:
        """The result of one trial, and where the cores were."""
        program = self.built.get("distance") if made.peer else None
        before = distance_ns(program, self.cores)
        result = made.run(rate, burst, seconds, self.cores)
        return result, where(before, distance_ns(program, self.cores))

    def once(self, made: Pair, asked_pps: int, ceiling: Ceiling) -> Paced:
        """One run, long enough for its rate."""
        seconds = min(LONGEST_S, max(self.options.seconds, FRAMES_AT_LEAST / asked_pps))
        floor = floor_of(self.built.get("stalls"), self.cores[0])
        burst = ceiling.burst(asked_pps, self.options.burst)
        result, cores = self.run(made, str(asked_pps), burst, seconds)
        return paced(asked_pps, result, floor, ceiling.cores == "near" and cores != "near")

    def ceiling(self, made: Pair) -> Ceiling:
        """In the best of some runs, since whatever disturbs only lowers it; of cores that are far
        from each other if they were so in any, since near ones can do all that far ones can."""
        found: dict[Cores, dict[int, float]] = {}
        for burst in (self.options.burst, 1) * CEILING_RUNS:
            result, cores = self.run(made, "max", burst, CEILING_S)
            pps = result["totals"]["tx_offered"] * 1e9 / result["duration_ns"]
            best = found.setdefault(cores, {})
            best[burst] = max(best.get(burst, 0.0), pps)
        for cores in (*RESOLVED_BY_PLAN, "moved"):
            rates = found.get(cores, {})
            if self.options.burst in rates:
                singly = rates.get(1) or min(one[1] for one in found.values() if 1 in one)
                return Ceiling(rates[self.options.burst], singly, cores)
        raise ProgramError("the cores moved in every run")  # each of which had its turn

    def rate(self, made: Pair, port: str, asked_pps: int, ceiling: Ceiling) -> Row:
        """All runs of a rate."""
        kept: list[Paced] = []
        least: Paced | None = None
        attempts = 0
        while attempts < self.options.attempts and len(kept) < self.options.runs:
            attempts += 1
            found = self.once(made, asked_pps, ceiling)
            if not found.disturbed:
                kept.append(found)
            elif least is None or found.taken < least.taken:
                least = found
        assert kept or least is not None
        runs = tuple(kept) if kept or least is None else (least,)
        burst = ceiling.burst(asked_pps, self.options.burst)
        return Row(port, asked_pps, burst, runs, attempts, not kept)

    def port(self, port: str) -> list[Row]:
        """All rates of one port."""
        rows: list[Row] = []
        told = not self.options.json
        with pair(port, find_engine(self.options.engine), self.options.frame_size) as made:
            ceiling = self.ceiling(made)
            rates = [int(rate) for rate in self.options.rates.split(",") if rate]
            if told:
                print(
                    f"\n{port}: ceiling {ceiling.burst_pps / 1e6:.2f} Mpps, of single frames "
                    f"{ceiling.single_pps / 1e6:.2f}, {self.options.frame_size} B"
                    + (f", cores {ceiling.cores}" if made.peer else "")
                )
                print(HEAD)
            for rate in rates or rates_up_to(ceiling.burst_pps):
                rows.append(self.rate(made, port, rate, ceiling))
                if told:
                    print(show(rows[-1]), flush=True)
        return rows


HEAD = (
    "   asked pps burst        off   p99 us   p99.9 looking p99   p99.9   of all  floor"
    "  dropped stall us  stolen  waited    peer    irqs    full  runs"
)


def show(row: Row) -> str:
    """A line of the table."""
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
        f"{len(row.runs):>3} of {row.made} {mark}"
    )


def arguments() -> argparse.Namespace:
    """The command line."""
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
    """Measure every port; the exit code says how it went."""
    options = arguments()
    with preferred(options.priority), tempfile.TemporaryDirectory(prefix="sm-pace-") as folder:
        bench = Bench(options, two_cores(options.cores), compile_all(Path(folder)))
        rows = [row for port in options.port or ["null"] for row in bench.port(port)]
    counted = [row for row in rows if not row.disturbed]
    if options.json:
        words = [asdict(row) | {"holds": row.holds, "own_holds": row.own_holds} for row in rows]
        print(json.dumps({"rows": words}))
    else:
        kept = sum(row.holds for row in counted)
        own = sum(row.own_holds and not row.holds for row in counted)
        print(
            f"\n{kept} of {len(counted)} undisturbed rates are as wanted, {own} more in what is "
            f"the sender's own, of {len(rows)} in all"
        )
    if not counted:
        return 3
    return 0 if all(row.holds or row.own_holds for row in counted) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ProgramError as failure:
        sys.exit(str(failure))
