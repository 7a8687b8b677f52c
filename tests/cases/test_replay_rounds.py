"""A capture that is replayed repeatedly stays the same.

From https://github.com/appneta/tcpreplay/issues/729 (each round is 4 bytes shorter), /issues/472
(with loops the rate is ignored) and /issues/674. The frames of round k are those of the file; a
stamp changes the payload of a UDP frame and nothing more, and its checksum stays right.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.engine import PATIENT, received, run_engine, sent_frames
from tests.cases.frames import C_TAG, arp_frame, parse, udp_frame, write_pcap

MIXED = [
    arp_frame(),
    udp_frame(b"x" * 200),
    udp_frame(b"y" * 900, tags=[(C_TAG, 7)]),
    bytes.fromhex("02000000000b02000000000a9000") + b"\1" * 50,  # loopback protocol
    bytes.fromhex("02000000000b02000000000a0026") + b"\xff" * 46,  # 802.3 with a length
]
TAGGED = [udp_frame(bytes([n]) * (40 + 10 * n), tags=[(C_TAG, 100)]) for n in range(7)]


@pytest.mark.parametrize("loops", [1, 10, 50])
def test_every_round_has_the_bytes_of_the_file(loops: int, tmp_path: Path) -> None:
    """The counts are exact, and frames of any protocol are sent unchanged and in order."""
    file = write_pcap(tmp_path / "in.pcap", MIXED)
    pace = ["--loops", str(loops), "--rate", "1M"]
    packets = sent_frames(tmp_path / "out.pcap", "--replay", file, *pace)
    assert [one.data for one in packets] == MIXED * loops


def test_stamped_rounds_change_the_payload_alone(tmp_path: Path) -> None:
    """Headers and lengths are those of the file in each round, checksums are right in the last
    round, and sequence numbers continue from round to round: the receiver misses none."""
    file, out = write_pcap(tmp_path / "in.pcap", TAGGED), tmp_path / "out.pcap"
    rounds = ["--stamp", "--loops", "10", "--rate", "1M"]
    packets = sent_frames(out, "--replay", file, *rounds)
    assert len(packets) == 70
    for number, packet in enumerate(packets):
        original, found = TAGGED[number % 7], packet.data
        assert len(found) == len(original)
        assert found[:44] == original[:44]  # up to the UDP checksum
        assert parse(found).sums_right
    totals = received(out, "--vlan", "100")
    assert (totals["rx_frames"], totals["rx_other"], totals["rx_corrupt"]) == (70, 0, 0)
    assert totals["rx_missing"] == 0


def test_rounds_without_end_keep_the_rate(tmp_path: Path) -> None:
    """`--loops 0` for a set time at 20,000 a second: the number of frames is rate times time,
    however short the file is."""
    options = ["--port", "null:", "--rate", "20k", "--burst", "10", "--duration", "0.25", *PATIENT]
    for frames in (1, 7):
        file = write_pcap(tmp_path / "in.pcap", TAGGED[:frames])
        totals = run_engine("sender", *options, "--replay", file, "--loops", "0").totals
        assert totals["tx_intended"] == totals["tx_offered"] == 5000


@pytest.mark.parametrize("frames", [1, 10])
def test_file_of_no_length_has_no_times_to_repeat(frames: int, tmp_path: Path) -> None:
    """All frames of TRex's udp_10_pkts have the same time, so a second round has no start. The
    refusal names the remedy."""
    file = write_pcap(tmp_path / "in.pcap", [udp_frame(b"z" * 60)] * frames, [5_000] * frames)
    options = ["--port", "null:", "--replay", file, "--schedule", "recorded", *PATIENT]
    assert "--rate" in run_engine("sender", *options, "--loops", "3").refusal
    assert run_engine("sender", *options, "--loops", "1").totals["tx_offered"] == frames
