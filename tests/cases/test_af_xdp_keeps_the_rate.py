"""The AF_XDP sender ignores the rate.

From https://github.com/appneta/tcpreplay/issues/896 (a capture of 32 s is sent in 0.94 s by AF_XDP,
and in 32.07 s otherwise), /pull/1086 and /issues/912 (with batches, the rate has no effect).
N frames at a rate take at least (N - burst) / rate on every port; a busy machine only makes that
longer. The kernel's counter at the other end has all frames.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cases.engine import PATIENT, run_engine
from tests.cases.frames import udp_frame, write_pcap
from tests.integration.engine_tools import Node, ip, port
from tests.integration.machine import needs_root

pytestmark = [pytest.mark.integration, needs_root]
IOS = ["af_xdp", "raw-mmsg"]


def sent_by(wire: tuple[Node, Node], io: str, *words: str) -> tuple[dict[str, int], float, int]:
    """Return the counters of a sender, the seconds that it took, and the frames that arrived."""
    a, b = wire
    to = ["--port", port(io, a), "--dst-mac", b.mac]
    before, began_s = received(b), time.monotonic()
    totals = run_engine("sender", *to, *words, *PATIENT, namespace=a.namespace).totals
    return totals, time.monotonic() - began_s, received(b) - before


def received(node: Node) -> int:
    (link,) = json.loads(ip("-n", node.namespace, "-j", "-s", "link", "show", "dev", node.device))
    return int(link["stats64"]["rx"]["packets"])


@pytest.mark.parametrize("io", IOS)
@pytest.mark.parametrize("burst", [1, 25, 64])
def test_rate_is_kept_at_every_burst(wire: tuple[Node, Node], io: str, burst: int) -> None:
    """6,400 frames at 13,907 a second."""
    options = ["--rate", "13907", "--burst", str(burst), "--frames", "6400"]
    totals, took_s, arrived = sent_by(wire, io, *options)
    assert totals["tx_offered"] == arrived == 6400
    assert took_s >= (6400 - burst) / 13_907


@pytest.mark.parametrize("io", IOS)
def test_recorded_times_are_kept(wire: tuple[Node, Node], io: str, tmp_path: Path) -> None:
    """400 frames that were recorded over 0.5 s take 0.5 s."""
    times = [round(number * 5e8 / 399) for number in range(400)]
    file = write_pcap(tmp_path / "in.pcap", [udp_frame(b"r" * 100)] * 400, times)
    totals, took_s, arrived = sent_by(wire, io, "--replay", str(file), "--schedule", "recorded")
    assert totals["tx_offered"] == arrived == 400
    assert took_s >= 0.5
