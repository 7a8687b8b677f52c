"""Megabits of payload, layer 2 or layer 1, and of 1000 or 1024.

The README of https://github.com/atoonk/go-pktgen counts payloads alone, users of
https://github.com/appneta/tcpreplay/issues/200 got 102.55 instead of 100 (powers of two), and
https://github.com/pktgen/Pktgen-DPDK/issues/128 asks about the layer. On layer 2 a frame counts
with its FCS; on layer 1 it takes 20 bytes more (preamble, start delimiter, gap); prefixes are
powers of ten."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.load import load_settings
from switchmark.language.source import CampaignError
from switchmark.model.parameter_type import Known
from switchmark.switch.registry import SWITCHES
from tests.cases.engine import PATIENT, run_engine, sent_frames
from tests.cases.frames import parse

KNOWN = Known(switches=("linux-bridge",), environments=("netns",))


def planned_pps(rate: str, **more: str) -> float:
    settings = {"switch": "linux-bridge", "rate": rate, **more}
    campaign = load_settings(settings, KNOWN, name="t", overrides=[])
    (trial,) = expand(campaign, {"linux-bridge": SWITCHES["linux-bridge"]().capabilities})
    assert trial.rate_pps is not None
    return trial.rate_pps


def engine_pps(rate: str, size: str) -> float:
    options = [
        "--rate",
        rate,
        "--packet-size",
        size,
        "--duration",
        "0.001",
        "--burst",
        "1",
        *PATIENT,
    ]
    return float(run_engine("sender", "--port", "null:", *options).result["config"]["rate_pps"])


@pytest.mark.parametrize(
    ("rate", "bits", "overhead"), [("1Gbps-l1", 10**9, 20), ("100Mbps-l2", 10**8, 0)]
)
@pytest.mark.parametrize("size", [64, 512, 1500, 1518])
def test_bits_are_frames_by_arithmetic(rate: str, bits: int, overhead: int, size: int) -> None:
    """1 Gbit/s on layer 1 is 1,488,095 frames of 64 bytes a second. Bench and engine agree
    exactly."""
    expected = bits / (8 * (size + overhead))
    if (rate, size) == ("1Gbps-l1", 64):
        assert int(expected) == 1_488_095
    assert round(planned_pps(rate, packet_size=str(size))) == round(expected)
    assert round(engine_pps(rate, str(size))) == round(expected)


def test_share_of_a_line_refers_to_layer_1() -> None:
    """A line is full on layer 1: 10 % of 10 Gbit/s is 1,488,095 frames of 64 bytes a second."""
    assert planned_pps("10% of 10Gbps", packet_size="64") == pytest.approx(1e9 / 672, rel=1e-6)
    assert engine_pps("10% of 10Gbps", "64") == pytest.approx(1e9 / 672, rel=1e-6)
    assert planned_pps("1Gbps-l1", packet_mix="imix") == pytest.approx(334_373, rel=1e-5)


@pytest.mark.parametrize("rate", ["1Gbps", "1Gibps-l1", "1Gibps", "100mbit"])
def test_bits_without_a_layer_or_of_powers_of_two_are_refused(rate: str) -> None:
    """A guess would be wrong by 31 % at 64 bytes."""
    with pytest.raises(CampaignError, match="rate"):
        planned_pps(rate, packet_size="64")
    options = ["--port", "null:", "--rate", rate, "--duration", "0.001"]
    assert "rate" in run_engine("sender", *options).refusal


@pytest.mark.parametrize("rate", ["0.5Mpps", "500k", "0.0005G"])
def test_frames_a_second_have_no_layer(rate: str) -> None:
    text = rate.removesuffix("pps")
    assert planned_pps(text, packet_size="64") == 500_000
    assert engine_pps(text, "64") == 500_000


def test_payload_of_64_bytes_is_a_frame_of_110(tmp_path: Path) -> None:
    """Ethernet 14, IPv4 20, UDP 8, payload 64, FCS 4."""
    pace = ["--rate", "1M", "--burst", "1", "--duration", "0.000001"]
    (packet,) = sent_frames(tmp_path / "out.pcap", "--packet-size", "110", *pace)
    assert packet.wire_bytes + 4 == 110
    assert len(parse(packet.data).payload) == 64
