"""Other people's instruments say the same: tshark, iperf3, sockperf, ping, pidstat, perf."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from switchmark.environment.base import Node
from switchmark.method import latency
from switchmark.method.cpu import CpuReading, cost
from switchmark.method.hardware import HardwareCounters
from switchmark.method.measurer import SATURATING
from switchmark.switch.linux_bridge import LinuxBridge
from tests.integration.machine import needs_root
from tests.integration.truth_rig import Rig, deployed, find, reference

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]
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
        process.wait(10)


def test_tshark_counts_the_frames_that_we_count() -> None:
    tshark = need("tshark")
    with deployed(LinuxBridge()) as rig:
        device = node_of(rig, 1).spec.port.device_inside
        command = [*within(rig, 1), tshark, "-i", str(device), "-f", "udp", "-q", "-l",
                   "-z", "io,stat,0"]  # fmt: skip

        def off_by() -> float:
            with running(command, says="Capturing on") as capture:
                time.sleep(0.5)  # it says so a moment before it really does
                point = rig.measurer.measure(1.0, 2_000)
                assert point.offered_frames > 1_000
                time.sleep(0.3)
                capture.terminate()
                said = capture.communicate(timeout=10)[0]
            found = re.findall(r"<>\s*[\d.Dur]+\s*\|\s*(\d+)\s*\|\s*(\d+)", said)
            assert found, said
            frames, octets = map(int, found[0])
            assert octets == 60 * frames, "64 bytes with FCS, which no capture shows"
            return frames - (point.offered_frames - point.lost_frames)

        find(0, 0, off_by)


def test_iperf3_and_the_bridge_count_alike() -> None:
    iperf = need("iperf3")
    with deployed(LinuxBridge(), io="udp") as rig:
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
        assert sent > 900
        assert sent <= passed <= sent + 100


def test_iperf3_saturates_at_about_what_we_do() -> None:
    """Both send one datagram a system call; the order of magnitude must agree."""
    iperf = need("iperf3")
    with deployed(LinuxBridge(), io="udp", burst="1") as rig:
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


def test_sockperf_and_ping_see_the_round_trips_that_we_see() -> None:
    sockperf, ping = need("sockperf"), need("ping")
    with deployed(LinuxBridge(), dimension="latency", io="udp", rate="2000") as rig:
        trial = rig.plan.trial.model_copy(update={"duration_s": 0.5})
        peer = address(rig, 1)
        server = [*within(rig, 1), sockperf, "server", "-i", peer, "-p", str(PORT)]
        client = [*within(rig, 0), sockperf, "ping-pong", "-i", peer, "-p", str(PORT),
                  "-t", "1", "--full-rtt", "-m", "18"]  # fmt: skip
        echo = [*within(rig, 0), ping, "-q", "-c", "200", "-i", "0.002", "-s", "18", peer]

        def medians() -> tuple[float, float, float]:
            seen = latency.measure(trial, rig.deployment.ends, rig.plan.policy, lambda: None)
            assert seen.latency is not None
            with running(server, says="PORT"):
                said = subprocess.run(client, capture_output=True, text=True, check=True).stdout
            found = re.search(r"percentile 50\.000\s*=\s*([\d.]+)", said)
            assert found, said
            told = subprocess.run(echo, capture_output=True, text=True, check=True).stdout
            echoes = re.search(r"= ([\d.]+)/([\d.]+)/", told)
            assert echoes, told
            return seen.latency.percentiles_ns["50"] / 1e3, float(found[1]), 1e3 * float(echoes[1])

        def worst_ratio() -> float:
            ours, theirs, least_echo = medians()
            assert least_echo < 20 * ours, "a ping is answered by the kernel: less, or alike"
            return ours / theirs

        find(1.2, 1.0, worst_ratio)


def test_pidstat_sees_the_switch_use_what_we_say() -> None:
    pidstat = need("pidstat")
    with deployed(reference()) as rig:
        pids = tuple(rig.deployment.switch.process_ids())

        def off_by() -> float:
            before = CpuReading.take(pids)
            command = [pidstat, "-u", "-p", str(pids[0]), "2", "1"]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            used = cost(before, CpuReading.take(pids), []).switch_cores_used
            (average,) = [line.split() for line in said.splitlines() if line.startswith("Average")]
            theirs = float(average[-3]) / 100  # %CPU, then the core and the command
            assert used is not None
            return used - theirs

        find(0, 0.06, off_by)


def test_perf_counts_the_cycles_that_we_count() -> None:
    perf = need("perf")
    with deployed(reference()) as rig:
        pid = rig.deployment.switch.process_ids()[0]
        command = [perf, "stat", "-x", ";", "-e", "cycles,instructions", "-p", str(pid),
                   "--", "sleep", "0.5"]  # fmt: skip

        def ratio() -> float:
            counters = HardwareCounters.open_for([pid], [])
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            seen = counters.stop(frames=1)
            if seen is None or "<not" in done.stderr:
                pytest.skip(f"no hardware counters here: {counters.absent or done.stderr}")
            theirs = {line.split(";")[2]: float(line.split(";")[0])
                      for line in done.stderr.splitlines() if line.count(";") > 3}  # fmt: skip
            shares = [seen.events[name] / theirs[name] for name in ("cycles", "instructions")]
            return statistics.fmean(shares)  # ours run while perf starts and ends, too

        find(1.15, 0.2, ratio)
