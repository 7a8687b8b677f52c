"""Stamped files with different frames, short frames at a rate in bits, and files that are written.

A receiver measures frames of one kind: one IP version, one number of VLAN tags. In a file of two
kinds half of the frames counted as lost. A rate in bits of 42-byte frames was computed without the
padding to 64 bytes and the 20 bytes of preamble and gap on the wire.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.engine import PATIENT, received, run_engine, sent_frames
from tests.cases.frames import C_TAG, S_TAG, arp_frame, udp_frame, write_pcap

PLAIN = udp_frame(b"p" * 40)
TAGGED = udp_frame(b"p" * 40, tags=[(C_TAG, 100)])
TWICE = udp_frame(b"p" * 40, tags=[(S_TAG, 200), (C_TAG, 100)])
IPV6 = udp_frame(b"p" * 40, source="2001:2::1", destination="2001:2::2")


def replay(file: Path, *more: str) -> str:
    """Return the refusal of a replay of this file."""
    return run_engine("sender", "--port", "null:", "--replay", file, *more, *PATIENT).refusal


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([PLAIN, TAGGED], "frame 2 is IPv4 with VLAN 100, the first is IPv4 without a tag"),
        ([PLAIN, PLAIN, IPV6], "frame 3 is IPv6 without a tag, the first is IPv4 without a tag"),
        ([TAGGED, TWICE], "frame 2 is IPv4 with VLAN 200.100, the first is IPv4 with VLAN 100"),
        (
            [TWICE, udp_frame(b"p" * 40, tags=[(S_TAG, 201), (C_TAG, 100)])],
            "frame 2 is IPv4 with VLAN 201.100, the first is IPv4 with VLAN 200.100",
        ),
        ([udp_frame(b"p" * 40, tags=[(S_TAG, 200)])], "frame 1 has VLAN tags of types that no"),
        (
            [udp_frame(b"p" * 40, tags=[(C_TAG, 200), (C_TAG, 100)])],
            "frame 1 has VLAN tags of types that no receiver measures",
        ),
    ],
)
def test_stamp_refuses_frames_of_another_kind(
    frames: list[bytes], message: str, tmp_path: Path
) -> None:
    assert message in replay(write_pcap(tmp_path / "in.pcap", frames), "--stamp")


@pytest.mark.parametrize(
    ("frame", "options"),
    [
        (PLAIN, ()),
        (TAGGED, ("--vlan", "100")),
        (TWICE, ("--vlan", "200.100")),
        (IPV6, ("--ip-version", "6")),
    ],
)
def test_stamped_frames_of_one_kind_are_all_received(
    frame: bytes, options: tuple[str, ...], tmp_path: Path
) -> None:
    file = write_pcap(tmp_path / "in.pcap", [frame, frame])
    out = tmp_path / "out.pcap"
    sent_frames(out, "--replay", file, "--stamp", "--loops", "8", "--rate", "1M")
    assert received(out, *options)["rx_frames"] == 16


def test_vlans_that_a_receiver_needs_are_named(tmp_path: Path) -> None:
    """Two VLAN IDs are two flows, which a receiver needs as an option."""
    other = udp_frame(b"p" * 40, tags=[(C_TAG, 101)])
    file = write_pcap(tmp_path / "in.pcap", [TAGGED, other])
    out = tmp_path / "out.pcap"
    ended = run_engine(
        "sender", "--port", f"pcap:write={out}", "--replay", file, "--stamp", *PATIENT
    )
    assert ended.totals["tx_offered"] == 2
    assert "a receiver needs --vlan 100 --flows 2:vlan" in ended.error
    assert received(out, "--vlan", "100", "--flows", "2:vlan")["rx_frames"] == 2


@pytest.mark.parametrize(
    ("frame", "on_wire"),
    [
        (arp_frame()[:42], 64 + 20),
        (arp_frame()[:14], 64 + 20),
        (udp_frame(b"", pad_to=60), 64 + 20),
        (udp_frame(b"", pad_to=61), 65 + 20),
        (udp_frame(b"", pad_to=1514), 1518 + 20),
    ],
)
def test_rate_in_bits_counts_bytes_on_the_wire(frame: bytes, on_wire: int, tmp_path: Path) -> None:
    """10 Mbit/s on the wire are 14,881 ARP frames a second (tcpreplay: 84 bytes each)."""
    file = write_pcap(tmp_path / "in.pcap", [frame])
    ended = run_engine(
        "sender", "--port", "null:", "--replay", file, "--rate", "10Mbps-l1", "--loops", "2",
        *PATIENT,
    )  # fmt: skip
    config = ended.result["config"]
    assert config["rate_pps"] == pytest.approx(10e6 / 8 / on_wire, rel=1e-6)


def test_port_does_not_overwrite_a_file_that_is_read(tmp_path: Path) -> None:
    """By another name of the file, or by another port of a forwarder."""
    file = write_pcap(tmp_path / "in.pcap", [PLAIN] * 3)
    before = file.read_bytes()
    (link := tmp_path / "link.pcap").symlink_to(file)
    other = f"{tmp_path}/./in.pcap"
    for name in (other, str(link)):
        ended = run_engine("receiver", "--port", f"pcap:read={file},write={name}")
        assert "is the file that port 0 reads" in ended.refusal
    (hard := tmp_path / "hard.pcap").hardlink_to(file)
    ports = ("--port", f"pcap:write={hard}", "--port", f"pcap:read={file}")
    assert "is the file that port 1 reads" in run_engine("forwarder", *ports).refusal
    out = tmp_path / "out.pcap"
    both = (
        "--port",
        f"pcap:write={out},read={file}",
        "--port",
        f"pcap:write={tmp_path}/./out.pcap",
    )
    assert "is the file that port 0 writes" in run_engine("forwarder", *both).refusal
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("begin", "message"),
    [(b"\x1f\x8b\x08\0", "gzip -k -d FILE"), (b"\x28\xb5\x2f\xfd", "zstd -k -d FILE")],
)
def test_compressed_file_is_refused_with_unpack_command(
    begin: bytes, message: str, tmp_path: Path
) -> None:
    (file := tmp_path / "a.pcap").write_bytes(begin + bytes(40))
    assert message in replay(file)


def test_unsendable_frames_are_refused_with_a_remedy(tmp_path: Path) -> None:
    long = write_pcap(tmp_path / "long.pcap", [PLAIN, udp_frame(b"").ljust(9230, b"\0")])
    line = replay(long)
    assert "editcap -F pcap FILE NEW 2" in line and "with gro, gso and tso off" in line
    any_device = write_pcap(tmp_path / "any.pcap", [bytes(60)], link=276)
    assert "capture on one device (tcpdump -i DEVICE)" in replay(any_device)
