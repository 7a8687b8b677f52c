#!/usr/bin/env python3
"""Prints the cycles of the traffic engine: a table of cycles a frame, by role and port kind.

Every run has the engine at both ends on one core each for --seconds; both ends are measured.
Columns:

  Mpps       frames that the loop moved
  ticks      clock ticks (TSC) a frame, of the rounds of the loop that moved frames
  ns         the same in nanoseconds
  best       the same in the best of twenty samples of 1 ms, in which both ends had their cores, so
             that this also holds on a busy machine
  busy       share of the time in such rounds; the rest was polling without frames
  kernel     share of the CPU time in the kernel
  cycles, instr, llc, dtlb
                        core cycles, instructions, last-level cache misses, data TLB misses a frame,
                        of the whole loop with empty polls (perf_event_open; `-` if the machine has
                        none)

For each end the run with the fewest cycles a frame of --runs is printed, as disturbances only add.
A run in which an end waited for its core, or the hypervisor took time, for more than --disturbed is
repeated up to three times; the last column has the disturbed share. Core cycles count only while
the program runs; ticks go on. With --profile, `perf record` watches one more run of each case and
the hottest functions are printed.

Needs root (veth devices), two cores, and for the dpdk ports about 400 MB of free hugepages.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from programs import ProgramError, Traffic
from setting import find_engine, preferred, two_cores

MAC_A, MAC_B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
ADDRESSES = (
    ("--src-mac", MAC_A, "--dst-mac", MAC_B, "--src-ip", "198.18.0.1", "--dst-ip", "198.18.0.2"),
    ("--src-mac", MAC_B, "--dst-mac", MAC_A, "--src-ip", "198.18.0.2", "--dst-ip", "198.18.0.1"),
)
ATTEMPTS = 3
SAMPLE_S = 0.001
VETH = ("raw", "packet_mmap", "af_xdp", "io_uring")
EVENTS = ("cycles", "instructions", "cache_misses", "dtlb_misses")


@dataclass(frozen=True, slots=True)
class End:
    """One program of a case."""

    role: str
    ports: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A case; the first end starts first and is stopped, the second end measures itself."""

    name: str
    ends: tuple[End, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of an end in one run."""

    mpps: float
    ticks: float
    ns: float
    best_ns: float
    busy: float
    kernel: float
    events: dict[str, float | None]  # events a frame
    disturbed: float
    absent: str  # why an event is missing


def cases(folder: Path, devices: Sequence[str], kinds: Sequence[str]) -> list[Case]:
    """Return all cases of these port kinds (all cases without a kind)."""
    found = [
        Case("null", (End("sender", ("null:",)),)),
        Case("null", (End("receiver", ("null:rx-rate=max",)),)),
        Case("null", (End("receiver", ("null:rx-rate=max",), ("--latency", "1")),)),
        Case("null", (End("forwarder", ("null:rx-rate=max", "null:")),)),
        Case("null", (End("sender", ("null:",), ("--frame-size", "1518")),)),
        Case("null", (End("sender", ("null:",), ("--frame-size", "1518", "--touch")),)),
    ]
    for kind in VETH:
        flags = ",mmsg" if kind == "raw" else ""
        ports = [(f"{kind}:dev={device}{flags}",) for device in devices]
        found.append(Case(kind, (End("receiver", ports[1]), End("sender", ports[0]))))
        found.append(Case(kind, (End("server", ports[1]), End("client", ports[0]))))
        between, around = (ports[1][0], ports[2][0]), (ports[0][0], ports[3][0])
        found.append(Case(kind, (End("forwarder", between), End("tester", around))))
    sockets = [folder / f"{number}.sock" for number in range(4)]
    wires = {
        "virtio-user": (f"virtio-user={sockets[0]},server", f"vhost={sockets[0]},client"),
        "memif": (f"memif={sockets[1]},role=client", f"memif={sockets[1]},role=server"),
    }
    for kind, (own_kind, other_kind) in wires.items():
        a, b = (f"dpdk:{own_kind}",), (f"dpdk:{other_kind}",)
        found.append(Case(f"dpdk {kind}", (End("receiver", b), End("sender", a))))
        found.append(Case(f"dpdk {kind}", (End("server", b), End("client", a))))
    inner = tuple(f"dpdk:vhost={path}" for path in sockets[2:])
    outer = tuple(f"dpdk:virtio-user={path}" for path in sockets[2:])
    found.append(Case("dpdk vhost", (End("forwarder", inner), End("tester", outer))))
    return [case for case in found if not kinds or case.name.split()[0] in kinds]


def label(end: End) -> str:
    """Return the role with its options that are not defaults."""
    options = [word for word in end.options if not word.startswith("--frame") and word != "1"]
    return " ".join([end.role, *(word.removeprefix("--") for word in options)])


class Bench:
    """Runs cases on two cores."""

    def __init__(self, engine: Path, cores: tuple[int, int], seconds: float) -> None:
        self.engine = engine
        self.cores = cores
        self.seconds = seconds

    def run(self, case: Case, watch: str | None = None) -> tuple[list[Figures], list[str]]:
        """Measure all ends of a case once; `watch`: profile the end with this role."""
        running: list[Traffic] = []
        hot: list[str] = []
        try:
            for number, end in enumerate(case.ends):
                core = self.cores[number % 2]
                running.append(Traffic(self.engine, end.role, end.ports, self._options(
                    end, last=number == len(case.ends) - 1, side=1 - number), core))  # fmt: skip
            for program in running:
                program.start()
            if watch is not None:
                watched = [end.role for end in case.ends].index(watch)
                hot = profile(running[watched].process.pid, self.seconds / 2)
            results = [running[-1].result()]
            results = [program.finish() for program in running[:-1]] + results
        finally:
            for program in running:
                program.process.kill()
        found = [
            figures(result, program.ready, program.best_ns(moved(end.role)))
            for end, result, program in zip(case.ends, results, running, strict=True)
        ]
        return found, hot

    def _options(self, end: End, *, last: bool, side: int) -> list[str]:
        always = ["--idle", "poll", "--hardware-counters", "--interval", str(SAMPLE_S)]
        options = [*always, *ADDRESSES[max(side, 0)], *end.options]
        if last:
            options += ["--duration", str(self.seconds)]
        if end.role == "tester":
            options += ["--bidirectional"]
        if end.role == "forwarder":  # a forwarder has no addresses
            options = [*always, *end.options]
            options += ["--duration", str(self.seconds)] if last else []
        return options

    def least_disturbed(self, case: Case, limit: float) -> list[Figures]:
        """Return the first run disturbed by at most `limit`, otherwise the best of three."""
        runs = []
        for _ in range(ATTEMPTS):
            runs.append(self.run(case)[0])
            if max(end.disturbed for end in runs[-1]) <= limit:
                break
        return min(runs, key=lambda ends: max(end.disturbed for end in ends))


def moved(role: str) -> Callable[[dict[str, Any]], int]:
    """Return the number of frames in a role's sample."""
    if role == "forwarder":
        return lambda sample: sum(port["rx_frames"] for port in sample["ports"])
    if role in ("client", "tester"):
        return lambda sample: int(sample["tx_offered"] + sample["rx_frames"])
    return lambda sample: int(sample["tx_offered" if role == "sender" else "rx_frames"])


def figures(result: dict[str, Any], ready: dict[str, Any], best: float) -> Figures:
    """Return the figures a frame of a result event."""
    cycles, cpu, hardware = result["cycles"], result["cpu"], result["hardware"] or {}
    frames = cycles["frames"]
    if not frames:
        raise ProgramError("no frame was moved")
    lost = cpu["run_delay_ns"] + (cpu["stolen_own_cores_ns"] or 0)
    counts = {name: hardware.get(name) for name in EVENTS}
    return Figures(
        mpps=frames / result["duration_ns"] * 1e3,
        ticks=cycles["ticks_per_frame"],
        ns=cycles["ticks_per_frame"] * 1e9 / ready["tsc_hz"],
        best_ns=best,
        busy=cycles["useful_share"],
        kernel=cpu["system_ns"] / max(cpu["cpu_ns"], 1),
        events={name: None if n is None else n / frames for name, n in counts.items()},
        disturbed=lost / cpu["wall_ns"],
        absent=hardware.get("reason") or "",
    )


def profile(pid: int, seconds: float) -> list[str]:
    """Return the hottest functions of a process while it runs, by `perf`, one a line."""
    with tempfile.NamedTemporaryFile(suffix=".perf") as data:
        watched = subprocess.run(
            [*("perf", "record", "-q", "-o", data.name, "-F", "2000", "-p", str(pid)),
             *("--", "sleep", str(seconds))],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if watched.returncode != 0:
            return [f"perf record: {watched.stderr.strip().splitlines()[-1:]}"]
        done = subprocess.run(
            [*("perf", "report", "-i", data.name, "--stdio", "-q", "--no-children"),
             *("--percent-limit", "3", "-F", "overhead,dso,sym")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


@contextmanager
def veth() -> Iterator[list[str]]:
    """Four devices, joined by a wire in pairs, for the block."""
    devices = [f"smcy{end}{os.getpid()}"[:15] for end in "abcd"]
    try:
        for a, b in (devices[:2], devices[2:]):
            command = ["ip", "link", "add", a, "type", "veth", "peer", "name", b]
            subprocess.run(command, check=True, timeout=10)
        for device in devices:
            Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("1")
            subprocess.run(["ip", "link", "set", device, "up"], check=True, timeout=10)
        yield devices
    finally:
        for device in devices[::2]:
            subprocess.run(["ip", "link", "del", device], check=False, timeout=10)


def least(runs: Sequence[Figures]) -> Figures:
    """Return the run with the fewest cycles a frame (ticks if the machine counts no cycles), and
    the best samples of any run."""

    def cost(run: Figures) -> float:
        return run.events["cycles"] or run.ticks

    return replace(min(runs, key=cost), best_ns=min(run.best_ns for run in runs))


def show(case: Case, end: End, figures: Figures) -> str:
    """Return a row of the table."""
    size = dict(zip(end.options, end.options[1:], strict=False)).get("--frame-size", "64")
    events = "".join(
        f"{'-':>9}" if value is None else f"{value:>9.{1 if name != 'cache_misses' else 3}f}"
        for name, value in figures.events.items()
    )
    return (
        f"{case.name:<17}{label(end):<18}{size:>5}{figures.mpps:>9.2f}{figures.ticks:>8.0f}{figures.ns:>8.1f}{figures.best_ns:>8.1f}"
        f"{figures.busy:>7.0%}{figures.kernel:>8.0%}{events}{figures.disturbed:>7.1%}"
    )


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--engine", type=Path, help="the binary (default: the one that the bench uses)")
    add("--kind", action="append", default=[], help="only this port kind (repeatable)")
    add("--runs", type=int, default=3, help="runs of each case (default 3)")
    add("--seconds", type=float, default=1.0, help="measured time of a run (default 1)")
    add("--cores", default="", help="the two cores, e.g. 0,1")
    add("--disturbed", type=float, default=0.02, help="share of a run that others may take")
    add("--profile", action="store_true", help="print the hottest functions, by perf record")
    add("--priority", action="store_true", help="let this session have the cores before others")
    add("--json", action="store_true", help="print one JSON document instead of the table")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = arguments()
    cores = two_cores(options.cores)
    if os.geteuid() != 0:
        sys.exit("needs root, for veth devices")
    if options.profile and shutil.which("perf") is None:
        sys.exit("--profile: there is no `perf`; install linux-perf")
    bench = Bench(find_engine(options.engine), cores, options.seconds)
    with (
        tempfile.TemporaryDirectory(prefix="sm-cycles-") as folder,
        veth() as devices,
        preferred(options.priority),
    ):
        table(bench, cases(Path(folder), devices, options.kind), options)


def table(bench: Bench, chosen: Sequence[Case], options: argparse.Namespace) -> None:
    """Run every case, and print the cases that cannot run."""
    rows: list[dict[str, Any]] = []
    if not options.json:
        print("ports            role              size     Mpps   ticks      ns    best   busy"
              "  kernel   cycles    instr      llc     dtlb disturbed")  # fmt: skip
    for case in chosen:
        try:
            runs = [bench.least_disturbed(case, options.disturbed) for _ in range(options.runs)]
        except ProgramError as failure:
            print(f"{case.name:<17}not measured: {failure}", file=sys.stderr)
            continue
        for number, end in enumerate(case.ends):
            best = least([ends[number] for ends in runs])
            rows.append({"ports": case.name, "role": label(end), "figures": best})
            if not options.json:
                print(show(case, end, best), flush=True)
            if options.profile:
                for line in bench.run(case, end.role)[1]:
                    print(f"    {line}")
    if options.json:
        print(json.dumps(rows, default=lambda figure: {
            name: getattr(figure, name) for name in Figures.__slots__}))  # fmt: skip
    elif rows and (absent := rows[0]["figures"].absent):
        print(f"hardware counters: {absent}")


if __name__ == "__main__":
    try:
        main()
    except ProgramError as failure:
        sys.exit(str(failure))
