"""Independent references for TCP: a token bucket of the kernel, a server with a known computing
time, and a server that is stopped."""

from __future__ import annotations

import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from switchmark.engine.events import TcpInterval
from switchmark.engine.tcp import TcpClient, TcpServer, TcpWorkload, latency_from_due
from tests.integration.engine_tools import Node, ip, needs_engine, veth_pair
from tests.integration.machine import needs_root
from tests.integration.tcp_tools import (
    address_of,
    between,
    intervals_of,
    result_of,
    run_once,
    run_trial,
    started,
)
from tests.truths import ROOT, truth

pytestmark = [*needs_engine, needs_root, pytest.mark.alone]

S = 1_000_000_000
MSS_BYTES, FRAME_BYTES = 1448, 1514  # with time stamps, MTU 1500, no FCS
TBF_BPS, TBF_TOLERANCE, QUEUE_BYTES = 50_000_000, 0.02, 100_000
SPIN_US, SPIN_TOLERANCE_US = 500, 20
STALL_S, LATE_NS = 0.4, 50_000_000


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Node, Node]]:
    with veth_pair("tt") as nodes:
        yield nodes


@pytest.fixture
def shaped(wire: tuple[Node, Node]) -> Iterator[tuple[Node, Node]]:
    """A wire behind a token bucket, and an algorithm that keeps its queue filled.

    The queue is short, so that the bytes behind a lost segment, which arrive late, are few. The
    algorithm is set at the routes, which needs no right of the engine's sockets."""
    for node in wire:
        route = f"route replace 198.18.0.0/24 dev {node.device} src {node.address} congctl reno"
        ip("-n", node.namespace, *route.split())
    tc = ["tc", "-n", wire[0].namespace, "qdisc"]
    bucket = f"root tbf rate {TBF_BPS}bit burst 32kb limit {QUEUE_BYTES}".split()
    subprocess.run([*tc, "replace", "dev", wire[0].device, *bucket], check=True, timeout=30)
    try:
        yield wire
    finally:
        subprocess.run([*tc, "del", "dev", wire[0].device, "root"], check=True, timeout=30)


def rate_bps(intervals: list[TcpInterval], payload_bytes: int) -> float:
    assert len(intervals) >= 10
    return 8e9 * payload_bytes / sum(one.duration_ns for one in intervals)


@truth("goodput of a TCP stream", "`tc tbf`, payload / frame", "kernel", "2 %")
@pytest.mark.parametrize("streams", [1, 4])
def test_stream_fills_a_token_bucket(shaped: tuple[Node, Node], streams: int) -> None:
    """The server received the bytes that the bucket passes, and the client got acknowledgements for
    them."""
    address = address_of(shaped[1])
    server = TcpServer(listen=address, workload="stream", interval_s=0.1)
    client = TcpClient(connect=address, workload="stream", connections=streams, interval_s=0.1)
    run = run_once(shaped, server, client, "duration=4")
    begin_ns = run.client_intervals[0].t_ns - run.client_intervals[0].duration_ns
    received = between(run.server_intervals, begin_ns + S, begin_ns + 4 * S)
    sent = between(run.client_intervals, begin_ns + S, begin_ns + 4 * S)
    true_bps = pytest.approx(TBF_BPS * MSS_BYTES / FRAME_BYTES, rel=TBF_TOLERANCE)
    assert rate_bps(received, sum(one.received_bytes for one in received)) == true_bps
    acked_bytes = sum(one.kernel.acked_bytes for one in sent if one.kernel is not None)
    assert rate_bps(sent, acked_bytes) == true_bps
    assert run.client.congestion_control == "reno"
    assert run.client.totals.sent_bytes == run.server.totals.received_bytes
    state = run.client.connection_state
    assert state is not None and state.connections == streams
    assert state.mss_bytes.min == state.mss_bytes.max == MSS_BYTES


@truth("time of a TCP response beside a stream", "the queue of `tc tbf`", "kernel", "its length")
def test_requests_wait_behind_a_stream(shaped: tuple[Node, Node]) -> None:
    """They wait in the queue that the stream fills, for at most its length."""
    a, b = shaped
    bulk = address_of(b, 5202)
    requests = TcpClient(connect=address_of(b), rate_rps=100)
    with (
        started(b, TcpServer(listen=bulk, workload="stream")) as sink,
        started(b, TcpServer(listen=address_of(b)), real_time=True) as serving,
        started(a, TcpClient(connect=bulk, workload="stream")) as filling,
        started(a, requests, real_time=True) as sending,
    ):
        sink.tell("start")
        sink.wait("started")
        without = run_trial(serving, sending, 1, "duration=1").client
        filling.tell("start interval=0.1")
        filling.wait("tcp_interval", 10)
        beside = run_trial(serving, sending, 2, "duration=2").client
        filling.tell("stop")
        result_of(filling)
    assert without.latency is not None and without.latency.from_sent is not None
    assert beside.latency is not None and beside.latency.from_sent is not None
    assert without.latency.from_sent.percentiles.p50 < 2_000_000
    assert beside.latency.from_sent.count == 200
    queue_ns = 8e9 * QUEUE_BYTES / TBF_BPS
    assert queue_ns / 5 < beside.latency.from_sent.percentiles.p50 < 1.1 * queue_ns


@pytest.mark.parametrize(
    ("comparison", "program", "most"), [("bulk", "iperf3", 2.0), ("latency-epoll", "sockperf", 1.4)]
)
def test_engine_agrees_with_other_programs(comparison: str, program: str, most: float) -> None:
    """In turns; wide bounds, because docs/engine-io.md has the ratios of a quiet machine."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    command = [ROOT / "bench/tcp/agreement.py", comparison, "--turns=5", "--seconds=1"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, timeout=300
    )
    found = re.search(rf"engine / {program} ([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    assert 1 / most < float(found.group(1)) < most


def median_us(wire: tuple[Node, Node], spin_us: int) -> float:
    server = TcpServer(listen=address_of(wire[1]), spin_us=spin_us)
    client = TcpClient(connect=address_of(wire[1]), rate_rps=500)
    run = run_once(wire, server, client, "duration=0.6", real_time=True)
    assert run.client.latency is not None and run.client.latency.from_sent is not None
    assert run.client.latency.from_sent.count == run.server.totals.completed == 300
    return run.client.latency.from_sent.percentiles.p50 / 1e3


@truth("time of a TCP response", "a server that computes for 500 us", "ours", "20 us")
def test_time_of_the_server_is_measured(wire: tuple[Node, Node]) -> None:
    """The paired difference of medians to a server that answers at once, in turns."""
    differences = []
    for turn in range(7):
        order = (0, SPIN_US) if turn % 2 else (SPIN_US, 0)
        medians = {spin_us: median_us(wire, spin_us) for spin_us in order}
        differences.append(medians[SPIN_US] - medians[0])
    assert statistics.median(differences) == pytest.approx(SPIN_US, abs=SPIN_TOLERANCE_US)


@truth("late TCP requests", "a server that is stopped for 400 ms", "kernel", "300 of 350")
@pytest.mark.parametrize(
    ("workload", "connections"), [("rr", 1), ("rr", 16), ("crr", 64), ("http", 16)]
)
def test_stall_of_the_server_is_not_hidden(
    wire: tuple[Node, Node], workload: TcpWorkload, connections: int
) -> None:
    """Of 1000 requests a second, 350 are due more than 50 ms before the end of the stall."""
    address = address_of(wire[1])
    server = TcpServer(listen=address, workload=workload)
    client = TcpClient(
        connect=address, workload=workload, connections=connections, rate_rps=1000, interval_s=0.1
    )
    with (
        started(wire[1], server, real_time=True) as serving,
        started(wire[0], client, real_time=True) as sending,
    ):
        serving.tell("start")
        serving.wait("started")
        sending.tell("start duration=2")
        sending.wait("tcp_interval", 5)
        serving.process.send_signal(signal.SIGSTOP)
        time.sleep(STALL_S)
        serving.process.send_signal(signal.SIGCONT)
        result = result_of(sending)
        behind_ns = max(one.behind_ns for one in intervals_of(sending))
    assert result.totals.attempted + result.unsent == 2000
    latency = latency_from_due(result)
    assert latency is not None and latency.count == 2000
    assert sum(count for low, _, count in latency.slots() if low > LATE_NS) >= 300
    assert behind_ns > LATE_NS, "requests waited for a connection"
