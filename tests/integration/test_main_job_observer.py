"""The bench's counts against independent observers: the kernel's device counters, a packet socket,
and `ping` through the same bridge."""

from __future__ import annotations

import json
import re
import shutil
import socket
import struct
import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.machine import needs_root
from tests.integration.main_job import (
    ATTEMPTS,
    SHORT,
    Bench,
    Job,
    moved,
    need,
    settings,
    totals,
    went_well,
)
from tests.integration.switch_rig import packet_socket

pytestmark = [pytest.mark.alone, pytest.mark.integration, needs_root]

VERIFIED_FRAMES = 60  # fewer arrive at a client before its trial
LATE_ANSWERS = 30  # answers of 0.15 s, if the server had no core at the end
STAMP = 42  # offset of the engine's stamp (Ethernet 14, IPv4 20, UDP 8)
SOL_PACKET, PACKET_STATISTICS = 263, 6  # linux/if_packet.h
DATA, VERIFICATION = (
    1,
    2,
)  # kinds in the high half of the stamp's second byte (engine/traffic/frame.h)


class Observer(threading.Thread):
    """Counts the frames that arrive at `eth0` of a namespace, independent of the engine there. It
    starts before the device goes up, so that it misses no frame, or reports that it came late."""

    def __init__(self, namespace: str) -> None:
        super().__init__(daemon=True)
        self.socket = packet_socket(namespace, "eth0")
        self.socket.getsockopt(
            socket.SOL_SOCKET, socket.SO_ERROR
        )  # clears the error of a device that is down
        self.kinds: Counter[int] = Counter()
        self.sequences: set[int] = set()
        self.lengths: Counter[int] = Counter()
        self.missed = 0
        self.other = 0
        self.is_late = frames_received(namespace) > 0
        self.start()

    def run(self) -> None:
        """Count until the device goes down at the end of the trial."""
        self.socket.settimeout(60)
        while True:
            try:
                frame, address = self.socket.recvfrom(4096)
            except OSError:
                break
            if address[2] == socket.PACKET_OUTGOING:
                continue
            if len(frame) < STAMP + 18 or frame[STAMP] != 0x53 or frame[12:14] != b"\x08\x00":
                self.other += 1
                continue
            kind = frame[STAMP + 1] >> 4 & 3
            self.kinds[kind] += 1
            if kind == DATA:
                self.sequences.add(struct.unpack_from("!I", frame, STAMP + 4)[0])
                self.lengths[len(frame)] += 1
        statistics = self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self.missed = struct.unpack("II", statistics)[1]
        self.socket.close()


def frames_received(namespace: str) -> int:
    """Return the number of frames that its `eth0` has received."""
    command = ["ip", "-n", namespace, "-s", "-j", "link", "show", "eth0"]
    (link,) = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return int(link["stats64"]["rx"]["packets"])


def namespace_of(job: Job, node: str, *, up: bool = True) -> str:
    """Wait until the node's port is in its namespace (or up) and return the namespace."""
    found: list[str] = []

    def there() -> bool:
        for path in Path("/run/netns").glob(f"sm{job.session}*{node}"):
            links = subprocess.run(
                ["ip", "-n", path.name, "-br", "link", "show", "eth0"],
                capture_output=True,
                text=True,
                check=False,
            )
            if links.returncode == 0 and (not up or " UP " in links.stdout):
                found.append(path.name)
        return bool(found)

    job.until(there, f"eth0 in the namespace of {node}")
    return found[0]


@pytest.mark.parametrize(("size", "io"), [(64, "raw-mmsg"), (1500, "udp")])
def test_counts_agree_with_a_packet_socket(bench: Bench, size: int, io: str) -> None:
    need(("linux-bridge",), ("netns",))
    for _ in range(ATTEMPTS):  # until the observer is first and the trial has its cores
        job = bench.start(
            *("trial", "linux-bridge", "--packet-size", str(size), "--rate", "2k", "--io", io),
            *("--duration", "2s", "--burst", "4", "--no-baseline", *settings(*SHORT)),
        )
        job.wait_session()
        observer = Observer(namespace_of(job, "rx0", up=False))
        code, _, err = job.end()
        assert went_well(code, err), err
        observer.join(timeout=120)
        assert not observer.is_alive()
        if code == 0 and not observer.is_late:
            break
    else:
        pytest.skip(f"machine too busy: observer late {observer.is_late}; {err}")
    (record,) = bench.records()
    sent, received = totals(record, "sender"), totals(record, "receiver")

    assert observer.missed == 0, "the observer itself was too slow"
    assert sent["tx_offered"] > 50, "paced, if the machine is not too busy"
    arrived = received["rx_frames"]
    assert received["rx_socket_drops"] == 0, "a paced trial does not fill the receiver's socket"
    assert observer.kinds[DATA] == arrived
    assert len(observer.sequences) == arrived, "each frame once"
    assert observer.lengths == {size - 4: arrived}, "all bytes except the FCS"
    assert record.throughput is not None and record.verification is not None
    lost = record.throughput.pairs[0].lost_frames
    assert sent["tx_offered"] - len(observer.sequences) == lost
    assert observer.kinds[VERIFICATION] >= record.verification.frames_arrived // 2

    # The kernel's counters of the switch's two devices.
    assert moved(record, 0, "rx_frames") == sent["tx_offered"]
    assert moved(record, 1, "tx_frames") == observer.kinds[DATA] + observer.other


def test_round_trips_are_of_the_order_of_ping(bench: Bench) -> None:
    """Through the same bridge, between the same namespaces, at the same time."""
    need(("linux-bridge",), ("netns",))
    if shutil.which("ping") is None:
        pytest.skip("ping is needed (apt install iputils-ping)")
    for _ in range(ATTEMPTS):  # until ping ends in time and the trial has its cores
        job = bench.start(
            *("trial", "linux-bridge", "--dimension", "latency", "--rate", "200", "--io", "udp"),
            *("--duration", "4s", "--no-baseline", *settings(*SHORT)),
        )
        job.wait_session()
        client = namespace_of(job, "cl0")
        job.until(lambda client=client: frames_received(client) > VERIFIED_FRAMES, "answers")
        ping = subprocess.run(
            ["ip", "netns", "exec", client, "ping", "-q", "-c", "100", "-i", "0.01", "10.64.0.2"],
            capture_output=True,
            text=True,
            check=False,
        )
        is_in_time = job.process.poll() is None
        code, _, err = job.end()
        assert went_well(code, err), err
        if code == 0 and (is_in_time or ping.returncode == 0):
            break
    else:
        pytest.skip(f"machine too busy: {err}")
    assert ping.returncode == 0, ping.stdout + ping.stderr
    match = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/", ping.stdout)
    assert match is not None, ping.stdout
    fastest_us = float(match[1]) * 1e3
    (record,) = bench.records()
    assert record.latency is not None
    assert record.latency.lost <= LATE_ANSWERS
    # Shortest times are least disturbed. The kernel answers ICMP; the bench's server has to wake
    # up.
    assert fastest_us / 20 < record.latency.min_ns / 1e3 < fastest_us * 200
    assert record.latency.percentiles_ns["50"] >= record.latency.min_ns
