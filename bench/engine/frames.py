#!/usr/bin/env python3
"""Measures the cost of each kind of traffic for the engine: flows, sizes, touched payload.

Every kind is compared with the simplest traffic of the same size, in alternating runs in random
order: with `null` (no I/O, the engine's own work alone), and through a vhost-user wire to `testpmd
rxonly`, or for receivers from the engine's own sender. The table gives medians, nanoseconds a
frame, the ratio to the simplest kind, and the spread (half the distance between the quartiles, of
the median).

On a busy machine every run is disturbed. `--windows 2` takes samples of 2 ms instead and gives the
rate that one sample of twenty reaches: in those samples both ends had their cores. Use --seconds 1
or more with it. The last column then has the time of rounds that moved frames, in ns a frame (also
in the best of twenty samples): it excludes waiting for a full or an empty ring, so it is the cost
at this end, however slow the other end is.

Needs two cores; for the wires about 400 MB of free hugepages and dpdk-testpmd.
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
import time
from dataclasses import dataclass

from comparison import spread
from programs import Program, Testpmd, Traffic, stolen_s
from setting import find_engine, preferred

WARM_UP_S = 0.3
MACS = ["--src-mac", "02:00:00:00:00:0a", "--dst-mac", "02:00:00:00:00:0b"]

# By role: (kind, options of the measured end, options of the sender if it is another program).
# The first kind of each group, up to the next None, is the reference of the others.
SENDERS = (
    ("64 B", ""),
    ("64 B, 1M flows by src-ip", "--flows 1M"),
    ("64 B, 1M flows by src-ip and src-port", "--flows 1M:src-ip+src-port"),
    ("64 B, 1M flows, Zipf 1.0", "--flows 1M:zipf=1.0"),
    ("imix", "--frame-size imix"),
    None,
    ("1518 B", "--frame-size 1518"),
    ("1518 B, every byte written", "--frame-size 1518 --touch"),
)
RECEIVERS = (
    ("64 B", ""),
    None,
    ("1518 B", "--frame-size 1518"),
    ("1518 B, every byte verified", "--frame-size 1518 --touch"),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A run of a kind of traffic."""

    rate_pps: float  # rate of the measured end
    useful_ns: float = 0.0  # time of its useful rounds, a frame; 0 without windows
    disturbed: float = 0.0  # share of the run that other programs took; unknown with windows


class Bench:
    """Runs one kind on one port kind."""

    def __init__(
        self,
        engine: Path,
        folder: Path,
        seconds: float,
        cores: tuple[int, int],
        window_ms: float = 0.0,
    ) -> None:
        self.engine = engine
        self.window_ms = window_ms  # 0: the mean of the whole run
        self.folder = folder
        self.seconds = seconds
        self.core, self.other = cores

    def run(self, role: str, port: str, options: str) -> Kind:
        """Run a kind of traffic once."""
        options_of_kind = options.split()
        programs: list[Program] = []
        try:
            if port == "null":
                spec = "null:" if role == "sender" else "null:rx-rate=max"
                programs.append(self._traffic(role, spec, options_of_kind, self.core))
            else:
                programs += self._wire(role, port, options_of_kind)
            for program in reversed(programs):
                program.start()
            time.sleep(WARM_UP_S)
            counter = "tx_offered" if role == "sender" else "rx_frames"
            if self.window_ms > 0:
                time.sleep(self.seconds)
                return best_windows(programs, counter)
            waited, stolen = _waited_ns(programs), stolen_s()
            first = programs[0].frames(counter)
            time.sleep(self.seconds)
            last = programs[0].frames(counter)
            taken_s = (_waited_ns(programs) - waited) / 1e9 + stolen_s() - stolen
            for program in programs:
                program.finish()
            span_s = last.time_s - first.time_s
            return Kind((last.frames - first.frames) / span_s, disturbed=taken_s / span_s)
        finally:
            for program in programs:
                program.process.kill()
            for socket in self.folder.glob("*.sock"):
                socket.unlink()

    def _wire(self, role: str, port: str, options: list[str]) -> list[Program]:
        """Return the programs, the measured end first; `port` is its side of the wire."""
        path = self.folder / "0.sock"
        spec = f"dpdk:{port}={path}"
        far = "vhost" if port == "virtio-user" else "virtio-user"
        vdev = {
            "vhost": f"net_vhost0,iface={path}",
            "virtio-user": f"net_virtio_user0,path={path},queue_size=256",
        }[far]

        def measured() -> Program:
            return self._traffic(role, spec, options, self.core)

        def peer() -> Program:
            if role == "sender":
                return Testpmd("rxonly", [vdev], ["--burst=32"], self.other)
            return self._traffic("sender", f"dpdk:{far}={path}", options, self.other)

        if port == "vhost":  # the listening side first
            return [measured(), peer()]
        other_end = peer()
        return [measured(), other_end]

    def _traffic(self, role: str, spec: str, options: list[str], core: int) -> Traffic:
        sending = ["--rate", "max", *MACS] if role == "sender" else []
        if self.window_ms > 0:  # the last option counts
            options = [*options, "--interval", f"{self.window_ms / 1000:g}"]
        return Traffic(self.engine, role, [spec], [*sending, "--idle", "poll", *options], core)


def _waited_ns(programs: list[Program]) -> int:
    return sum(program.process.waited_ns() for program in programs)


def best_windows(programs: list[Program], counter: str) -> Kind:
    """End the run; return the rate that one of twenty of the measured end's samples reaches, and
    the useful time a frame below which one of twenty stays."""
    measured = programs[0]
    assert isinstance(measured, Traffic)
    for program in programs:
        program.finish()
    rates = [one[counter] * 1e9 / one["duration_ns"] for one in measured.samples]
    useful_ns = measured.best_ns(lambda sample: int(sample[counter]))
    return Kind(statistics.quantiles(rates, n=20)[-1], useful_ns)


def compare(bench: Bench, role: str, port: str, runs: int, only: str) -> None:
    """Measure the kinds of a role whose name contains `only` in turns, and print the table."""
    every = SENDERS if role == "sender" else RECEIVERS
    kinds = [kind for kind in every if kind is None or only in kind[0]]
    rates: dict[str, list[float]] = {kind[0]: [] for kind in kinds if kind}
    useful: dict[str, list[float]] = {kind: [] for kind in rates}
    for _ in range(runs):
        for name, options in random.sample([kind for kind in kinds if kind], len(rates)):
            result = bench.run(role, port, options)
            rates[name].append(result.rate_pps)
            useful[name].append(result.useful_ns)
    plain = plain_ns = 0.0
    for kind in kinds:
        if kind is None:
            plain = plain_ns = 0.0
            continue
        median, own_ns = statistics.median(rates[kind[0]]), statistics.median(useful[kind[0]])
        plain, plain_ns = plain or median, plain_ns or own_ns
        useful_text = f"  useful {own_ns:7.2f} ns {plain_ns / own_ns:6.3f}" if own_ns else ""
        print(
            f"{port:12s} {role:9s} {kind[0]:40s} {median / 1e6:8.2f} Mpps {1e9 / median:7.2f} ns "
            f"{median / plain:6.3f}  spread {spread(rates[kind[0]]):.1%}{useful_text}",
            flush=True,
        )


def main() -> None:
    """Parse the command line and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", type=Path, help="the engine to measure")
    parser.add_argument("--port", action="append", choices=("null", "virtio-user", "vhost"))
    parser.add_argument("--role", action="append", choices=("sender", "receiver"))
    parser.add_argument("--only", default="", metavar="TEXT", help="kinds with this in their name")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--windows", type=float, default=0.0, metavar="MS", help="see above")
    parser.add_argument("--core", type=int, default=1, help="of the measured end")
    parser.add_argument("--other-core", type=int, default=0)
    parser.add_argument("--priority", action="store_true", help="have the cores first (root)")
    options = parser.parse_args()
    with preferred(options.priority), tempfile.TemporaryDirectory(prefix="sm-frames-") as folder:
        cores = (options.core, options.other_core)
        engine = find_engine(options.engine)
        bench = Bench(engine, Path(folder), options.seconds, cores, options.windows)
        for port in options.port or ("null", "virtio-user", "vhost"):
            for role in options.role or ("sender", "receiver"):
                compare(bench, role, port, options.runs, options.only)


if __name__ == "__main__":
    main()
