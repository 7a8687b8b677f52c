#!/usr/bin/env python3
"""Compare the engine's TCP roles with iperf3 (bulk: goodput of a stream) and sockperf (latency:
median time of a request), in turns over one veth pair. Needs root, iperf3 and sockperf.

sockperf waits in recv() in `latency`, and in epoll, as the engine does, in `latency-epoll`. Each
turn runs both programs once, in alternating order. The last line has the medians, and the median of
the ratios of the turns with its 95 % interval.

Three comparisons look for the cause of a difference in bulk. Each differs from `bulk` in one thing:
`bulk-64k` and `bulk-256k` in the size of the writes of both programs, which is also the size of
reads of iperf3 (the engine reads 256 KiB), `bulk-memory` in the buffer of iperf3, which is a file
in /dev/shm instead of one in /tmp. The CPU time of client and server for a gigabit stands beside
the rates: other load on the machine changes it less than a rate.

    bench/tcp/agreement.py --seconds 2 bulk bulk-64k bulk-256k bulk-memory latency latency-epoll

takes less than ten minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from switchmark.engine.binary import find_engine
from switchmark.engine.events import TcpInterval, TcpResult, parse
from switchmark.engine.tcp import TcpClient, TcpServer
from switchmark.statistics.order_statistics import ranks_of

ADDRESSES = ("198.18.0.1", "198.18.0.2")
SUBNET = "198.18.0.0/24"
ENGINE_PORT, OTHER_PORT = 5201, 5301
REQUEST_BYTES = 64
WARM_UP_S = 1.0
PATIENCE_S = 60.0
SETTLE_S = 0.3  # a server of another program does not report when it listens
PRIORITY = "10"


@dataclass(frozen=True)
class Wire:
    """Two namespaces that a veth pair joins."""

    namespaces: tuple[str, str]
    cores: tuple[int, int] | None
    real_time: bool
    # Of each bulk program, turn by turn: CPU time of client and server in ms for a gigabit.
    cpu_ms: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def note_cpu(self, program: str, bits: float, client_s: float, server_s: float) -> None:
        """Keep the CPU time of both ends of one run."""
        each = 1e3 / (bits / 1e9)
        self.cpu_ms.setdefault(program, []).append((client_s * each, server_s * each))

    def prefix(self, side: int) -> list[str]:
        """The command that runs a program at this side, pinned if there are two cores."""
        command = ["ip", "netns", "exec", self.namespaces[side]]
        if self.cores is not None:
            command += ["taskset", "-c", str(self.cores[side])]
        return command + (["chrt", "-f", PRIORITY] if self.real_time else [])


def ip(*arguments: str) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *arguments], check=True, timeout=PATIENCE_S)


@contextlib.contextmanager
def joined(congestion_control: str, *, real_time: bool) -> Iterator[Wire]:
    """The wire, with this algorithm at both routes."""
    names = tuple(f"smta{os.getpid()}{side}" for side in "ab")
    devices = tuple(f"smta{os.getpid() % 100000}{side}" for side in "ab")
    allowed = sorted(os.sched_getaffinity(0))
    cores = (allowed[0], allowed[1]) if len(allowed) > 1 else None
    try:
        for name in names:
            ip("netns", "add", name)
        ends = ["netns", names[0], "type", "veth", "peer", "name", devices[1], "netns", names[1]]
        ip("link", "add", devices[0], *ends)
        for name, device, address in zip(names, devices, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
            ip("-n", name, "link", "set", device, "up")
            route = ["route", "replace", SUBNET, "dev", device, "src", address]
            ip("-n", name, *route, "congctl", congestion_control)
        yield Wire((names[0], names[1]), cores, real_time)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def parsed(text: str) -> tuple[TcpResult, list[TcpInterval]]:
    """The result and the intervals among the engine's lines."""
    events = [parse(line) for line in text.splitlines()]
    results = [event for event in events if isinstance(event, TcpResult)]
    return results[-1], [event for event in events if isinstance(event, TcpInterval)]


def with_engine(
    wire: Wire, server: TcpServer, client: TcpClient, seconds: float
) -> tuple[TcpResult, list[TcpInterval], list[TcpInterval]]:
    """One trial: the result of the client, its intervals, and those of the server."""
    engine = str(find_engine())
    command = [*wire.prefix(0), engine, *client.arguments(), "--duration", str(seconds)]
    command.remove("--session")
    with subprocess.Popen(
        [*wire.prefix(1), engine, *server.arguments()],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as serving:  # fmt: skip
        assert serving.stdin is not None and serving.stdout is not None
        serving.stdout.readline()  # ready
        serving.stdin.write("start\n")
        serving.stdin.flush()
        serving.stdout.readline()  # started
        sent = subprocess.run(
            [*command, "--start", "now"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
            timeout=PATIENCE_S,
        )  # fmt: skip
        serving.stdin.write("stop\n")
        serving.stdin.close()
        received = serving.stdout.read()
    result, intervals = parsed(sent.stdout)
    return result, intervals, parsed(received)[1]


WRITE_BYTES = 131_072


def children_s() -> float:
    """CPU time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def engine_goodput(wire: Wire, seconds: float, write_bytes: int = WRITE_BYTES) -> float:
    """Bits per second that the server received after the first second."""
    address = f"{ADDRESSES[1]}:{ENGINE_PORT}"
    begun_s = children_s()
    result, sent, received = with_engine(
        wire,
        TcpServer(listen=address, workload="stream", interval_s=0.1),
        TcpClient(connect=address, workload="stream", interval_s=0.1, request_bytes=write_bytes),
        WARM_UP_S + seconds,
    )
    client_s = result.cpu.cpu_ns / 1e9
    wire.note_cpu(
        "engine", 8 * result.totals.sent_bytes, client_s, children_s() - begun_s - client_s
    )
    begin_ns = sent[0].t_ns - sent[0].duration_ns + WARM_UP_S * 1e9
    end_ns = begin_ns + seconds * 1e9
    steady = [
        one for one in received if one.t_ns - one.duration_ns >= begin_ns and one.t_ns <= end_ns
    ]
    bits = 8 * sum(one.received_bytes for one in steady)
    return bits / sum(one.duration_ns for one in steady) * 1e9


def iperf3_goodput(
    wire: Wire, seconds: float, write_bytes: int = WRITE_BYTES, buffer_folder: str = "/tmp"
) -> float:
    """Bits per second that the server of iperf3 received after the first second."""
    server = ["iperf3", "-s", "-1", "-B", ADDRESSES[1], "-p", str(OTHER_PORT)]
    client = ["iperf3", "-c", ADDRESSES[1], "-p", str(OTHER_PORT), "-J", "-l", str(write_bytes),
              "-O", f"{WARM_UP_S:g}", "-t", f"{seconds:g}"]  # fmt: skip
    environment = os.environ | {"TMPDIR": buffer_folder}
    begun_s = children_s()
    with subprocess.Popen(
        [*wire.prefix(1), *server], stdout=subprocess.DEVNULL, env=environment
    ) as serving:
        time.sleep(SETTLE_S)
        try:
            done = subprocess.run(
                [*wire.prefix(0), *client], capture_output=True, text=True, timeout=PATIENCE_S,
                check=True, env=environment,
            )  # fmt: skip
            client_s = children_s() - begun_s
            serving.wait(PATIENCE_S)  # it ends after its client
        finally:
            serving.terminate()
    end = json.loads(done.stdout)["end"]["sum_received"]
    whole_bits = float(end["bits_per_second"]) * (WARM_UP_S + seconds)
    wire.note_cpu("iperf3", whole_bits, client_s, children_s() - begun_s - client_s)
    return float(end["bits_per_second"])


def engine_median(wire: Wire, seconds: float) -> float:
    """Median time of a request in microseconds, from when it was sent, in a closed loop."""
    address = f"{ADDRESSES[1]}:{ENGINE_PORT}"
    sizes = {"request_bytes": REQUEST_BYTES, "response_bytes": REQUEST_BYTES}
    result, _, _ = with_engine(
        wire,
        TcpServer(listen=address, **sizes),  # type: ignore[arg-type]
        TcpClient(connect=address, **sizes),  # type: ignore[arg-type]
        seconds,
    )
    assert result.latency is not None and result.latency.from_sent is not None
    return result.latency.from_sent.percentiles.p50 / 1e3


def sockperf_median(wire: Wire, seconds: float) -> float:
    """Median round trip of sockperf's ping-pong in microseconds."""
    return sockperf(wire, seconds, ["--tcp", "-i", ADDRESSES[1], "-p", str(OTHER_PORT)])


def sockperf_epoll_median(wire: Wire, seconds: float) -> float:
    """The same if sockperf waits in epoll, which needs a file with its address."""
    with tempfile.NamedTemporaryFile("w", suffix=".feed") as feed:
        feed.write(f"T:{ADDRESSES[1]}:{OTHER_PORT}\n")
        feed.flush()
        return sockperf(wire, seconds, ["-f", feed.name, "-F", "e"])


def sockperf(wire: Wire, seconds: float, address: Sequence[str]) -> float:
    """Run a server and a client of sockperf."""
    client = ["ping-pong", "--full-rtt", "-m", str(REQUEST_BYTES), "-t", f"{seconds:g}"]
    with subprocess.Popen(
        [*wire.prefix(1), "sockperf", "server", *address],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as serving:  # fmt: skip
        time.sleep(SETTLE_S)
        try:
            done = subprocess.run(
                [*wire.prefix(0), "sockperf", *client, *address],
                capture_output=True, text=True, timeout=PATIENCE_S, check=True,
            )  # fmt: skip
        finally:
            serving.terminate()
    found = re.search(r"percentile 50\.000 =\s+([\d.]+)", done.stdout)
    if found is None:
        raise SystemExit(f"sockperf printed no median: {done.stdout[-300:]}")
    return float(found.group(1))


def ratio_interval(ratios: Sequence[float]) -> str:
    """The median of the ratios, with its 95 % interval if there are enough."""
    ordered = sorted(ratios)
    low, high = ranks_of(len(ordered), 0.5)
    bounds = f"{ordered[low - 1]:.3f} to {ordered[high - 1]:.3f}" if low and high else "too few"
    return f"{statistics.median(ordered):.3f} ({bounds})"


Program = Callable[[Wire, float], float]
COMPARISONS: dict[str, tuple[str, Program, str, Program, float, bool]] = {
    "bulk": ("Gbit/s", engine_goodput, "iperf3", iperf3_goodput, 1e9, True),
    **{
        f"bulk-{size >> 10}k": (
            "Gbit/s",
            partial(engine_goodput, write_bytes=size),
            "iperf3",
            partial(iperf3_goodput, write_bytes=size),
            1e9,
            True,
        )
        for size in (65_536, 262_144)
    },
    "bulk-memory": (
        "Gbit/s",
        engine_goodput,
        "iperf3",
        partial(iperf3_goodput, buffer_folder="/dev/shm"),
        1e9,
        True,
    ),
    "latency": ("us", engine_median, "sockperf", sockperf_median, 1.0, True),
    "latency-epoll": ("us", engine_median, "sockperf", sockperf_epoll_median, 1.0, True),
}


def compare(
    name: str, turns: int, seconds: float, congestion_control: str, *, normal_priority: bool = False
) -> list[float]:
    """Run both programs in turns; print each turn and the summary. Returns the ratios."""
    unit, engine, other_name, other, scale, real_time = COMPARISONS[name]
    values: dict[str, list[float]] = {"engine": [], other_name: []}
    real_time = real_time and not normal_priority
    with joined(congestion_control, real_time=real_time) as wire:
        for turn in range(turns):
            order = [("engine", engine), (other_name, other)]
            for program, measure in order if turn % 2 else reversed(order):
                values[program].append(measure(wire, seconds) / scale)
            print(
                f"{name} {turn + 1}: engine {values['engine'][-1]:.2f}, "
                f"{other_name} {values[other_name][-1]:.2f} {unit}",
                flush=True,
            )
    ratios = [a / b for a, b in zip(values["engine"], values[other_name], strict=True)]
    print(
        f"{name}: median engine {statistics.median(values['engine']):.2f}, {other_name} "
        f"{statistics.median(values[other_name]):.2f} {unit}; engine / {other_name} "
        f"{ratio_interval(ratios)}"
    )
    for program, pairs in wire.cpu_ms.items():
        client, server = (statistics.median(one) for one in zip(*pairs, strict=True))
        print(f"{name}: {program} takes {client:.1f} ms/Gbit at the client, {server:.1f} at the "
              "server")  # fmt: skip
    return ratios


def main() -> None:
    """Read the arguments and run the comparisons."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("comparison", nargs="*", help=f"{', '.join(COMPARISONS)} (default: all)")
    parser.add_argument("--turns", type=int, default=11, help="runs of each program")
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time of a run")
    parser.add_argument("--congestion-control", default="reno", help="of both routes")
    parser.add_argument(
        "--normal-priority", action="store_true", help="leave real-time priority out"
    )
    arguments = parser.parse_args()
    names = arguments.comparison or list(COMPARISONS)
    for name in names:
        if name not in COMPARISONS:
            parser.error(f"comparison: '{name}' is not one of {', '.join(COMPARISONS)}")
        program = COMPARISONS[name][2]
        if shutil.which(program) is None:
            parser.error(f"{name}: {program} is not installed")
    if os.geteuid() != 0:
        parser.error("needs root, for network namespaces")
    for name in names:
        compare(
            name,
            arguments.turns,
            arguments.seconds,
            arguments.congestion_control,
            normal_priority=arguments.normal_priority,
        )


if __name__ == "__main__":
    main()
