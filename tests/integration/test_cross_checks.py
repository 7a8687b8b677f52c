"""Instruments of other projects agree: tshark, iperf3, sockperf, ping, pidstat, perf."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from switchmark.certify.support.rig import Rig, deploy
from switchmark.environment.support.base import Node
from switchmark.errors import TrialFailed
from switchmark.host.cores.counters import HardwareCounters
from switchmark.host.cores.cpu_time import CpuReading
from switchmark.method.support.measurer import SATURATING
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.trial import latency
from switchmark.trial.cost import cost, hardware_use
from tests.integration.machine import needs_root
from tests.integration.truth_rig import find, reference
from tests.truths import percent, truth

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.usefixtures("module_state_dir"),
    needs_root,
]
DEADLINE_S = 60.0  # for programs on a busy machine
RATE_PPS, RATE_WITHIN = 5_000, 0.01
PORT = 18_000  # port of the other instruments; the bench uses different ports


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed (./check installs it)")
    return found


def node_of(rig: Rig, end: int) -> Node:
    """Return the node at this end of pair 0."""
    return list(rig.deployment.nodes.values())[end]


def within(rig: Rig, end: int) -> list[str]:
    """Return the command prefix that runs a program at this end of pair 0."""
    netns = node_of(rig, end).netns
    assert netns is not None
    return ["ip", "netns", "exec", netns]


def address(rig: Rig, end: int) -> str:
    return node_of(rig, end).spec.port.ip.partition("/")[0]


@contextmanager
def running(command: list[str], says: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run a program in the background; continue once it has printed this on either output."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    try:
        assert process.stdout is not None
        while says:
            line = process.stdout.readline()
            assert line, f"{command[-1]} ended before it printed {says!r}"
            if says in line:
                break
        yield process
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


class Capture:
    """Collects the time and the length that tshark prints for each frame."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._frames: list[tuple[float, int]] = []
        self._process = process
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            columns = line.split()
            if len(columns) == 2 and columns[1].isdigit():  # tshark also prints other lines
                self._frames.append((float(columns[0]), int(columns[1])))

    def between(self, begun: float, ended: float) -> list[tuple[float, int]]:
        """Return the frames of this time, in seconds since 1970."""
        return [frame for frame in list(self._frames) if begun <= frame[0] <= ended]

    def finish(self) -> None:
        """End tshark and read the rest of its output."""
        self._process.terminate()
        self._reader.join(DEADLINE_S)


def wait_for(done: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Wait until it holds, or until it is clear that it never will; the caller asserts."""
    deadline = time.monotonic() + DEADLINE_S
    while not done() and time.monotonic() < deadline:
        meanwhile()
        time.sleep(0.05)


@truth("frames forwarded", "tshark", "other tool", "exact")
@truth("forwarded rate", "time stamps of tshark", "other tool", percent(RATE_WITHIN))
def test_tshark_agrees_on_frames_and_rate() -> None:
    """The kernel's times of the frames decide which frames count and give the rate, so that the
    start of the capture and late output do not matter."""
    tshark = need("tshark")
    with deploy(LinuxBridge()) as rig:
        device = node_of(rig, 1).spec.port.device_inside
        command = [*within(rig, 1), tshark, "-i", str(device), "-f", "udp", "-l", "-B", "16",
                   "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"]  # fmt: skip
        with running(command, says="Capturing on") as process:
            capture = Capture(process)
            wait_for(
                lambda: bool(capture.between(0, time.time())),
                lambda: rig.measurer.measure(0.05, 1_000),
            )

            def rate_ratio() -> float:
                measurer = rig.measurer
                begun = time.time()
                point = measurer.measure(1.0, RATE_PPS)
                ended = time.time()
                arrived = point.offered_frames - point.lost_frames
                due = arrived + measurer.side_counts[-1].socket_drops
                wait_for(lambda: len(capture.between(begun, ended)) >= due)
                counted.append((begun, ended, due))
                times = [at for at, _ in capture.between(begun, ended)]
                assert sum(frames for _, _, frames in counted) > 0
                if point.offered_frames < (1 - RATE_WITHIN / 5) * RATE_PPS:
                    raise TrialFailed("the sender gave frames up: it had no core in time")
                rate_pps = (len(times) - 1) / (times[-1] - times[0])
                calm.append(rate_pps / point.forwarded_pps)
                return calm[-1]

            counted: list[tuple[float, float, int]] = []
            calm: list[float] = []
            for _ in range(8):
                with suppress(TrialFailed):
                    rate_ratio()
                if calm and abs(calm[-1] - 1) <= RATE_WITHIN:
                    break
            capture.finish()
            for begun, ended, due in counted:
                frames = capture.between(begun, ended)
                assert len(frames) == due
                assert {length for _, length in frames} == {60}, "64 with FCS, never captured"
            agreed = bool(calm) and abs(calm[-1] - 1) <= RATE_WITHIN
            if not agreed and len(calm) < 3:  # a pause at the end of one trial proves nothing
                pytest.skip(
                    "machine too busy: the sender kept its schedule in 2 of 8 trials at most"
                )
            assert agreed, calm


@pytest.fixture(scope="module")
def sockets(module_state_dir: None) -> Iterator[Rig]:
    """A bridge between applications on UDP sockets, which send one datagram a system call."""
    with deploy(LinuxBridge(), io="udp", burst="1") as rig:
        yield rig


@pytest.fixture(scope="module")
def polling(module_state_dir: None) -> Iterator[Rig]:
    """A polling switch."""
    with deploy(reference()) as rig:
        yield rig


@truth(
    "frames forwarded",
    "iperf3, and the bridge's counters",
    "other tool",
    "100 frames of the control connection",
)
def test_iperf3_and_the_bridge_count_the_same(sockets: Rig) -> None:
    rig, iperf = sockets, need("iperf3")
    switch = rig.deployment.switch
    server = [*within(rig, 1), iperf, "-s", "-1", "-p", str(PORT), "--forceflush"]
    client = [*within(rig, 0), iperf, "-c", address(rig, 1), "-p", str(PORT),
              "-u", "-b", "8M", "-l", "1000", "-t", "1", "-J"]  # fmt: skip
    with running(server, says="Server listening"):
        before = switch.counters().ports[0].rx_frames
        report = json.loads(subprocess.run(client, capture_output=True, check=True).stdout)
        passed = switch.counters().ports[0].rx_frames - before
    sent = report["end"]["sum"]["packets"]
    # It also uses TCP beside the datagrams: a few tens of frames.
    assert sent > 100
    assert sent <= passed <= sent + 100


@truth("throughput", "iperf3, datagrams as fast as it can", "other tool", "a factor of 2.6")
def test_iperf3_saturates_at_a_similar_rate(sockets: Rig) -> None:
    """Both send one datagram a system call; the order of magnitude must agree."""
    rig, iperf = sockets, need("iperf3")
    server = [*within(rig, 1), iperf, "-s", "-p", str(PORT), "--forceflush"]
    client = [*within(rig, 0), iperf, "-c", address(rig, 1), "-p", str(PORT),
              "-u", "-b", "0", "-l", "18", "-t", "1", "-J"]  # fmt: skip

    def ratio() -> float:
        own_pps = rig.measurer.measure(1.0, SATURATING).offered_pps
        with running(server, says="Server listening"):
            report = json.loads(subprocess.run(client, capture_output=True, check=True).stdout)
        iperf3_pps = report["end"]["sum"]["packets"] / report["end"]["sum"]["seconds"]
        return own_pps / iperf3_pps

    find(1.5, 1.1, ratio)


@truth("latency, round trip", "sockperf, ping", "other tool", "a factor of 4")
def test_sockperf_and_ping_agree_on_round_trips() -> None:
    sockperf, ping = need("sockperf"), need("ping")
    with deploy(LinuxBridge(), dimension="latency", io="udp", rate="2000") as rig:
        trial = rig.plan.trial.model_copy(update={"duration_s": 0.5})
        peer = address(rig, 1)
        # Both poll, as the bench's applications do. A sleeping program takes 30 us or more to wake.
        server = [*within(rig, 1), sockperf, "server", "-i", peer, "-p", str(PORT), "--nonblocked"]
        client = [*within(rig, 0), sockperf, "ping-pong", "-i", peer, "-p", str(PORT),
                  "-t", "1", "--full-rtt", "--nonblocked", "-m", "18"]  # fmt: skip
        echo = [*within(rig, 0), ping, "-q", "-c", "100", "-i", "0.002", "-s", "18", peer]

        def medians() -> tuple[float, float, float]:
            measured = latency.measure(trial, rig.deployment.ends, rig.plan.policy, lambda: None)
            assert measured.figures.latency is not None
            with running(server, says="PORT"):
                output = subprocess.run(client, capture_output=True, text=True, check=True).stdout
            found = re.search(r"percentile 50\.000\s*=\s*([\d.]+)", output)
            assert found, output
            ping_output = subprocess.run(echo, capture_output=True, text=True, check=True).stdout
            echoes = re.search(r"= ([\d.]+)/([\d.]+)/", ping_output)
            assert echoes, ping_output
            return (
                measured.figures.latency.percentiles_ns["50"] / 1e3,
                float(found[1]),
                1e3 * float(echoes[1]),
            )

        def worst_ratio() -> float:
            own_us, sockperf_us, least_echo = medians()
            if least_echo >= 20 * own_us:  # the kernel answers pings as fast or faster
                return float("inf")
            return own_us / sockperf_us

        find(3.0, 1.0, worst_ratio)


@truth("CPU cost", "pidstat", "other tool", "0.06 cores")
def test_pidstat_agrees_on_cores_of_the_switch(polling: Rig) -> None:
    rig, pidstat = polling, need("pidstat")
    pids = tuple(rig.deployment.switch.process_ids())

    def off_by() -> float:
        before = CpuReading.take(pids)
        command = [pidstat, "-u", "-p", str(pids[0]), "1", "1"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        used = cost(before, CpuReading.take(pids), []).switch_cores_used
        (average,) = [line.split() for line in output.splitlines() if line.startswith("Average")]
        pidstat_cores = float(average[-3]) / 100  # %CPU, then the core and the command
        assert used is not None
        return used - pidstat_cores

    find(0, 0.06, off_by)


@truth("CPU cost", "perf stat", "other tool", "35 %")
def test_perf_agrees_on_cycles(polling: Rig) -> None:
    rig, perf = polling, need("perf")
    pid = rig.deployment.switch.process_ids()[0]
    command = [perf, "stat", "-x", ";", "-e", "cycles,instructions", "-p", str(pid),
               "--", "sleep", "0.3"]  # fmt: skip

    def ratio() -> float:
        counters = HardwareCounters.open_for([pid], [])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        use = hardware_use(counters.stop(), frames=1)
        if use is None or "<not" in done.stderr:
            pytest.skip(f"no hardware counters here: {counters.absent or done.stderr}")
        perf_counts = {line.split(";")[2]: float(line.split(";")[0])
                  for line in done.stderr.splitlines() if line.count(";") > 3}  # fmt: skip
        shares = [use.events[name] / perf_counts[name] for name in ("cycles", "instructions")]
        return statistics.fmean(shares)  # the bench's counters also run while perf starts and ends

    find(1.15, 0.2, ratio)
