"""TRex's IMIX is not "imix".

Five sources write IMIX and mean different frames: trex-core scripts/stl/imix.py (60/590/1514
without FCS, 28:16:4), FDio/csit (64/570/1518 at 28:16:4 and 28:20:4), opnfv/nfvbench
traffic_utils.py (64/594/1518, 7:4:1), https://github.com/atheurer/trafficgen/pull/43. The means
differ by 2 to 7 %, and so do frames per second at the same bits per second. Expected values are
arithmetic.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from switchmark.model import traffic
from tests.cases.engine import PATIENT, run_engine, sent_frames
from tests.cases.frames import udp_frame, write_pcap

RFC_6985, NFVBENCH, CSIT_V4 = (
    [(64, 7), (570, 4), (1518, 1)], [(64, 7), (594, 4), (1518, 1)], [(64, 28), (594, 20), (1518, 4)]
)  # fmt: skip
TREX = [(64, 28), (594, 16), (1518, 4)]
LINE_OVERHEAD = 20  # preamble, start of frame and gap of a frame on layer 1


def written(mix: list[tuple[int, int]]) -> str:
    return "+".join(f"{size}*{number}" if number > 1 else str(size) for size, number in mix)


def mean_of(mix: list[tuple[int, int]]) -> Fraction:
    return Fraction(sum(size * n for size, n in mix), sum(n for _, n in mix))


@pytest.mark.parametrize(
    ("text", "mix", "mean", "pps"),
    [
        ("imix", RFC_6985, 353.833, 33_437),
        (written(NFVBENCH), NFVBENCH, 361.833, 32_737),
        (written(CSIT_V4), CSIT_V4, 379.692, 31_274),
        ("random:" + written(TREX), TREX, 361.833, 32_737),
    ],
)
def test_mean_and_rate_of_each_imix(
    text: str, mix: list[tuple[int, int]], mean: float, pps: int
) -> None:
    """The mean is the weighted mean with FCS; at 100 Mbit/s on layer 1 a frame takes 20 bytes more.
    Bench and engine compute the same rate."""
    assert float(mean_of(mix)) == pytest.approx(mean, abs=0.0005)
    assert traffic.PacketMix(text).sizes.mean == pytest.approx(float(mean_of(mix)))
    exact = 100_000_000 / (8 * (mean_of(mix) + LINE_OVERHEAD))
    assert round(exact) == pps
    options = ["--packet-size", text, "--rate", "100Mbps-l1", "--duration", "0.001", *PATIENT]
    config = run_engine("sender", "--port", "null:", *options).result["config"]
    assert config["rate_pps"] == pytest.approx(float(exact), abs=1)
    assert config["mean_frame_size_bytes"] == pytest.approx(float(mean_of(mix)))


@pytest.mark.parametrize("mix", [RFC_6985, NFVBENCH, CSIT_V4])
def test_counts_in_turn_are_exact(mix: list[tuple[int, int]], tmp_path: Path) -> None:
    """Two full rounds have twice the weights of each size, counted in the sent file."""
    frames = 2 * sum(number for _, number in mix)
    pace = ["--rate", "1M", "--burst", str(frames), "--duration", f"{frames / 1e6:.6f}"]
    packets = sent_frames(tmp_path / "out.pcap", "--packet-size", written(mix), *pace)
    assert Counter(one.wire_bytes + 4 for one in packets) == {size: 2 * n for size, n in mix}


def test_replayed_imix_has_the_mean_of_its_file(tmp_path: Path) -> None:
    """A file of 58, 33 and 9 frames in a hundred: 369.76 bytes with FCS, 32,071 frames a second."""
    mix = [(64, 58), (594, 33), (1518, 9)]
    frames = [udp_frame(bytes(size - 4 - 42), pad_to=0) for size, n in mix for _ in range(n)]
    file = write_pcap(tmp_path / "imix.pcap", frames)
    options = ["--replay", file, "--rate", "100Mbps-l1", *PATIENT]
    config = run_engine("sender", "--port", "null:", *options).result["config"]
    assert config["mean_frame_size_bytes"] == pytest.approx(369.76)
    assert config["rate_pps"] == pytest.approx(32_071.0, abs=1)
