"""Other people's instruments say the same: tshark, iperf3, sockperf, ping, pidstat, perf."""

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

from switchmark.certify.support.stand import Rig, deployed
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
DEADLINE_S = 60.0  # of programs on a machine that does much else
RATE_PPS, RATE_WITHIN = 5_000, 0.01
PORT = 18_000  # of the other instruments; our own sockets have others


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed (./check installs it)")
    return found


def node_of(rig: Rig, end: int) -> Node:
    """The node at this end of pair 0."""
    return list(rig.deployment.nodes.values())[end]


def within(rig: Rig, end: int) -> list[str]:
    """The words that run a command where this end of pair 0 lives."""
    netns = node_of(rig, end).netns
    assert netns is not None
    return ["ip", "netns", "exec", netns]


def address(rig: Rig, end: int) -> str:
    return node_of(rig, end).spec.port.ip.partition("/")[0]


@contextmanager
def running(command: list[str], says: str = "") -> Iterator[subprocess.Popen[str]]:
    """A program in the background, once it has said this on either output."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    try:
        assert process.stdout is not None
        while says:
            line = process.stdout.readline()
            assert line, f"{command[-1]} ended before it said {says!r}"
            if says in line:
                break
        yield process
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


class Capture:
    """What tshark tells of each frame, as it comes: kernel's time, and length."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._frames: list[tuple[float, int]] = []
        self._process = process
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if len(words) == 2 and words[1].isdigit():  # (it says other things, too)
                self._frames.append((float(words[0]), int(words[1])))

    def between(self, begun: float, ended: float) -> list[tuple[float, int]]:
        """The frames of this time, in seconds since 1970."""
        return [frame for frame in list(self._frames) if begun <= frame[0] <= ended]

    def finish(self) -> None:
        """End it, and take in all that it still says."""
        self._process.terminate()
        self._reader.join(DEADLINE_S)


def wait_for(done: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Until it holds, or until it is clear that it never will: the caller asserts."""
    deadline = time.monotonic() + DEADLINE_S
    while not done() and time.monotonic() < deadline:
        meanwhile()
        time.sleep(0.05)


@truth("frames forwarded", "tshark", "other tool", "exact")
@truth("forwarded rate", "time stamps of tshark", "other tool", percent(RATE_WITHIN))
def test_tshark_counts_the_frames_that_we_count_and_sees_our_rate() -> None:
    """To the frame, whenever it begins to capture and however late it tells: by the times at
    which the kernel saw them, which also give the rate."""
    tshark = need("tshark")
    with deployed(LinuxBridge()) as rig:
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
            if not agreed and len(calm) < 3:  # a pause at either end of one trial is no proof
                pytest.skip(
                    "machine too busy: the sender kept its schedule in 2 of 8 trials at most"
                )
            assert agreed, calm


@pytest.fixture(scope="module")
def sockets(module_state_dir: None) -> Iterator[Rig]:
    """A bridge between applications on UDP sockets, which send one datagram a system call."""
    with deployed(LinuxBridge(), io="udp", burst="1") as rig:
        yield rig


@pytest.fixture(scope="module")
def polling(module_state_dir: None) -> Iterator[Rig]:
    """A switch that polls."""
    with deployed(reference()) as rig:
        yield rig


@truth(
    "frames forwarded",
    "iperf3, and the bridge's counters",
    "other tool",
    "100 frames of the control connection",
)
def test_iperf3_and_the_bridge_count_alike(sockets: Rig) -> None:
    rig, iperf = sockets, need("iperf3")
    switch = rig.deployment.switch
    server = [*within(rig, 1), iperf, "-s", "-1", "-p", str(PORT), "--forceflush"]
    client = [*within(rig, 0), iperf, "-c", address(rig, 1), "-p", str(PORT),
              "-u", "-b", "8M", "-l", "1000", "-t", "1", "-J"]  # fmt: skip
    with running(server, says="Server listening"):
        before = switch.counters().ports[0].rx_frames
        said = json.loads(subprocess.run(client, capture_output=True, check=True).stdout)
        passed = switch.counters().ports[0].rx_frames - before
    sent = said["end"]["sum"]["packets"]
    # Beside the datagrams it talks over TCP: a few tens of frames.
    assert sent > 100
    assert sent <= passed <= sent + 100


@truth("throughput", "iperf3, datagrams as fast as it can", "other tool", "a factor of 2.6")
def test_iperf3_saturates_at_about_what_we_do(sockets: Rig) -> None:
    """Both send one datagram a system call; the order of magnitude must agree."""
    rig, iperf = sockets, need("iperf3")
    server = [*within(rig, 1), iperf, "-s", "-p", str(PORT), "--forceflush"]
    client = [*within(rig, 0), iperf, "-c", address(rig, 1), "-p", str(PORT),
              "-u", "-b", "0", "-l", "18", "-t", "1", "-J"]  # fmt: skip

    def ratio() -> float:
        ours = rig.measurer.measure(1.0, SATURATING).offered_pps
        with running(server, says="Server listening"):
            said = json.loads(subprocess.run(client, capture_output=True, check=True).stdout)
        theirs = said["end"]["sum"]["packets"] / said["end"]["sum"]["seconds"]
        return ours / theirs

    find(1.5, 1.1, ratio)


@truth("latency, round trip", "sockperf, ping", "other tool", "a factor of 2.2")
def test_sockperf_and_ping_see_the_round_trips_that_we_see() -> None:
    sockperf, ping = need("sockperf"), need("ping")
    with deployed(LinuxBridge(), dimension="latency", io="udp", rate="2000") as rig:
        trial = rig.plan.trial.model_copy(update={"duration_s": 0.5})
        peer = address(rig, 1)
        # Both poll, as our applications do: a sleeping one takes 30 us or more to wake, by machine.
        server = [*within(rig, 1), sockperf, "server", "-i", peer, "-p", str(PORT), "--nonblocked"]
        client = [*within(rig, 0), sockperf, "ping-pong", "-i", peer, "-p", str(PORT),
                  "-t", "1", "--full-rtt", "--nonblocked", "-m", "18"]  # fmt: skip
        echo = [*within(rig, 0), ping, "-q", "-c", "100", "-i", "0.002", "-s", "18", peer]

        def medians() -> tuple[float, float, float]:
            seen = latency.measure(trial, rig.deployment.ends, rig.plan.policy, lambda: None)
            assert seen.figures.latency is not None
            with running(server, says="PORT"):
                said = subprocess.run(client, capture_output=True, text=True, check=True).stdout
            found = re.search(r"percentile 50\.000\s*=\s*([\d.]+)", said)
            assert found, said
            told = subprocess.run(echo, capture_output=True, text=True, check=True).stdout
            echoes = re.search(r"= ([\d.]+)/([\d.]+)/", told)
            assert echoes, told
            return (
                seen.figures.latency.percentiles_ns["50"] / 1e3,
                float(found[1]),
                1e3 * float(echoes[1]),
            )

        def worst_ratio() -> float:
            ours, theirs, least_echo = medians()
            if least_echo >= 20 * ours:  # a ping is answered by the kernel: less, or alike
                return float("inf")
            return ours / theirs

        find(1.2, 1.0, worst_ratio)


@truth("CPU cost", "pidstat", "other tool", "0.06 cores")
def test_pidstat_sees_the_switch_use_what_we_say(polling: Rig) -> None:
    rig, pidstat = polling, need("pidstat")
    pids = tuple(rig.deployment.switch.process_ids())

    def off_by() -> float:
        before = CpuReading.take(pids)
        command = [pidstat, "-u", "-p", str(pids[0]), "1", "1"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        used = cost(before, CpuReading.take(pids), []).switch_cores_used
        (average,) = [line.split() for line in said.splitlines() if line.startswith("Average")]
        theirs = float(average[-3]) / 100  # %CPU, then the core and the command
        assert used is not None
        return used - theirs

    find(0, 0.06, off_by)


@truth("CPU cost", "perf stat", "other tool", "35 %")
def test_perf_counts_the_cycles_that_we_count(polling: Rig) -> None:
    rig, perf = polling, need("perf")
    pid = rig.deployment.switch.process_ids()[0]
    command = [perf, "stat", "-x", ";", "-e", "cycles,instructions", "-p", str(pid),
               "--", "sleep", "0.3"]  # fmt: skip

    def ratio() -> float:
        counters = HardwareCounters.open_for([pid], [])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seen = hardware_use(counters.stop(), frames=1)
        if seen is None or "<not" in done.stderr:
            pytest.skip(f"no hardware counters here: {counters.absent or done.stderr}")
        theirs = {line.split(";")[2]: float(line.split(";")[0])
                  for line in done.stderr.splitlines() if line.count(";") > 3}  # fmt: skip
        shares = [seen.events[name] / theirs[name] for name in ("cycles", "instructions")]
        return statistics.fmean(shares)  # ours run while perf starts and ends, too

    find(1.15, 0.2, ratio)
