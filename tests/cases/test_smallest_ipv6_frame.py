"""The smallest IPv6 frame is 84 bytes, not 64.

From https://github.com/lencsegabor/siitperf/pull/1 and
https://github.com/fujiapple852/trippy/issues/985 (a subtraction that goes below zero). Ethernet 14,
IPv6 40, UDP 8, the engine's stamp 18 and the FCS 4 are 84 bytes; each tag adds 4. A smaller size is
refused where it is written, also inside a range or a mix, and the smallest arrives uncut.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.model.parameter_type import Known
from switchmark.switch.registry import SWITCHES
from tests.cases.engine import received, run_engine, sent_frames
from tests.cases.frames import parse

KNOWN = Known(switches=("linux-bridge",), environments=("netns",))
SMALLEST = {"none": 84, "100": 88, "200.100": 92}


def refusal(*lines: str) -> str:
    text = "\n".join(("switch: linux-bridge", "ip_version: 6", *lines))
    with pytest.raises(UsageError) as refused:
        expand(load_text(text, "c.yaml", KNOWN, ()), {"linux-bridge": bridge()})
    return str(refused.value)


def bridge() -> Any:
    return SWITCHES["linux-bridge"]().capabilities


@pytest.mark.parametrize(("vlan", "smallest"), SMALLEST.items())
def test_campaign_refuses_less_and_accepts_the_smallest(vlan: str, smallest: int) -> None:
    tag = f'vlan: "{vlan}"'
    assert str(smallest) in refusal(tag, f"packet_size: {smallest - 1}")
    text = f"switch: linux-bridge\nip_version: 6\n{tag}\npacket_size: {smallest}"
    (trial,) = expand(load_text(text, "c.yaml", KNOWN, ()), {"linux-bridge": bridge()})
    assert trial.packet_size_bytes == smallest


@pytest.mark.parametrize(
    "size",
    ["packet_size: 64..128 step 4", "packet_mix: imix", "packet_mix: random:64-1518",
     "packet_mix: genome:aag"],
)  # fmt: skip
def test_range_or_mix_with_less_is_refused(size: str) -> None:
    line = refusal(size)
    assert size.partition(":")[0] in line and " 64 " in line and "84" in line


@pytest.mark.parametrize(("vlan", "smallest"), SMALLEST.items())
def test_engine_refuses_less_and_sends_the_smallest_whole(
    vlan: str, smallest: int, tmp_path: Path
) -> None:
    """Datagram and checksum in the file are complete, and the receiver accepts each frame."""
    kind, out = ["--ip-version", "6", "--vlan", vlan], tmp_path / "out.pcap"
    pace = ["--rate", "1M", "--burst", "10", "--duration", "0.00001"]
    less = run_engine("sender", "--port", "null:", *kind, "--packet-size", str(smallest - 1), *pace)
    assert str(smallest) in less.refusal
    packets = sent_frames(out, *kind, "--packet-size", str(smallest), *pace)
    assert len(packets) == 10
    for packet in packets:
        assert packet.wire_bytes + 4 == smallest
        datagram = parse(packet.data)
        assert datagram.sums_right and len(datagram.payload) == 18
    turned = ["--src-ip", "2001:2::2", "--dst-ip", "2001:2::1"]
    totals = received(out, *kind, "--packet-size", str(smallest), *turned)
    assert (totals["rx_frames"], totals["rx_corrupt"], totals["rx_other"]) == (10, 0, 0)
