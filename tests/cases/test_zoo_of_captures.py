"""Various capture files: each is replayed byte by byte, or refused in one line with a remedy.

The kinds are those of the test files of tcpdump (39b50f76), TRex and tcpreplay: offloaded frames of
7,306 and 80,066 bytes, jumbo frames, a big-endian file, frames out of order in time, pcapng, ARP of
42 bytes, 802.3 lengths, captures of `tcpdump -i any`, a truncated file, an empty file. They are
made here. The largest frame that the engine builds is 9,018 bytes with FCS, hence 9,014 without.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.cases.engine import PATIENT, run_engine, sent_frames
from tests.cases.frames import (
    C_TAG,
    LINK_ETHERNET,
    MICRO,
    NANO,
    S_TAG,
    arp_frame,
    udp_frame,
    write_pcap,
)

ZOO = {
    "frame that a NIC would have segmented": [udp_frame(bytes(7306 - 42))],
    "jumbo": [udp_frame(b"j" * (2788 - 42)), udp_frame(b"k" * (9014 - 42))],
    "ARP as its sender hands it over": [arp_frame()],
    "MPLS": [bytes.fromhex("02000000000b02000000000a8847") + b"\x00\x01\x01\x40" + bytes(60)],
    "IPX by length": [bytes.fromhex("02000000000b02000000000a0022ffff") + bytes(44)],
    "two tags": [udp_frame(b"t" * 50, tags=[(S_TAG, 200), (C_TAG, 100)])],
    "header alone": [bytes.fromhex("02000000000b02000000000a88b5")],
}


def replay(file: Path, *more: str) -> str:
    """Return the refusal of a replay of this file."""
    return run_engine("sender", "--port", "null:", "--replay", file, *more, *PATIENT).refusal


@pytest.mark.parametrize("name", ZOO)
def test_copy_has_the_same_bytes(name: str, tmp_path: Path) -> None:
    """The sent frames are those of the file in their order, whatever their content."""
    frames = [*ZOO[name], udp_frame(b"last")]
    file = write_pcap(tmp_path / "in.pcap", frames)
    packets = sent_frames(tmp_path / "out.pcap", "--replay", file, "--loops", "2", "--rate", "1M")
    assert [one.data for one in packets] == frames * 2


@pytest.mark.parametrize("magic", [MICRO, NANO])
@pytest.mark.parametrize("order", ["<", ">"])
def test_either_byte_order_and_unit(order: str, magic: int, tmp_path: Path) -> None:
    """A capture of another machine has the same length here: 0.1 s from first to last frame."""
    frames = [udp_frame(bytes([n]) * 30) for n in range(3)]
    times = [10**9, 10**9 + 40_000_000, 10**9 + 100_000_000]
    file = write_pcap(tmp_path / "in.pcap", frames, times, magic=magic, order=order)
    out = tmp_path / "out.pcap"
    packets = sent_frames(out, "--replay", file, "--schedule", "recorded")
    assert [one.data for one in packets] == frames
    assert packets[-1].time_ns - packets[0].time_ns > 50_000_000  # late frames may shorten it


def test_order_of_the_file_is_kept_if_times_go_back(tmp_path: Path) -> None:
    """Frames of several interfaces may be out of order in time."""
    frames = [udp_frame(bytes([n]) * 30) for n in range(3)]
    file = write_pcap(tmp_path / "in.pcap", frames, [0, 5_000_000, 1_000_000])
    packets = sent_frames(tmp_path / "out.pcap", "--replay", file, "--schedule", "recorded")
    assert [one.data for one in packets] == frames


@pytest.mark.parametrize("size", [9015, 9230, 65_549])
def test_frame_beyond_the_limit_is_named(size: int, tmp_path: Path) -> None:
    """The message has the frame's number, its size and the limit."""
    file = write_pcap(tmp_path / "in.pcap", [arp_frame(), udp_frame(b"x")[:42].ljust(size, b"\0")])
    line = replay(file)
    for word in ("frame 2", str(size), "9014"):
        assert word in line


def test_pcapng_is_refused_with_the_conversion_command(tmp_path: Path) -> None:
    file = tmp_path / "in.pcapng"
    block = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    file.write_bytes(block)
    assert "editcap -F pcap" in replay(file)


@pytest.mark.parametrize("link", [113, 276, 101, 127])
def test_capture_without_ethernet_is_refused(link: int, tmp_path: Path) -> None:
    """`tcpdump -i any` writes link type 113 or 276, which has no Ethernet header to send."""
    assert link != LINK_ETHERNET
    assert f"link type {link}" in replay(write_pcap(tmp_path / "in.pcap", [bytes(60)], link=link))


def test_files_without_a_frame_are_refused(tmp_path: Path) -> None:
    """Empty, only a header, compressed, missing, a folder, a pipe: one line each, no crash."""
    (empty := tmp_path / "empty").write_bytes(b"")
    (gzip := tmp_path / "a.pcap.gz").write_bytes(b"\x1f\x8b\x08\0" + bytes(40))
    os.mkfifo(pipe := tmp_path / "pipe")
    header = write_pcap(tmp_path / "header.pcap", [])
    for file in (empty, header, gzip, tmp_path / "missing", tmp_path, pipe):
        assert str(file) in replay(file)


def test_truncated_file_sends_complete_frames_and_warns(tmp_path: Path) -> None:
    """A capture whose program ended early: the frames before the cut are good."""
    frames = [udp_frame(b"c" * 100)] * 3
    whole = write_pcap(tmp_path / "whole.pcap", frames).read_bytes()
    (cut := tmp_path / "cut.pcap").write_bytes(whole[:-20])
    ended = run_engine("sender", "--port", "null:", "--replay", cut, *PATIENT)
    assert ended.totals["tx_offered"] == 2
    assert "ends inside a frame" in ended.error


def test_stamp_names_the_first_unsuitable_frame(tmp_path: Path) -> None:
    file = write_pcap(tmp_path / "in.pcap", [udp_frame(b"u" * 40), arp_frame()])
    assert "frame 2" in replay(file, "--stamp")


OF_ANOTHER_KIND = {
    "tag": udp_frame(b"v" * 40, tags=[(C_TAG, 100)]),
    "IPv6": udp_frame(b"v" * 40, source="2001:db8::1", destination="2001:db8::2"),
}


@pytest.mark.parametrize("kind", OF_ANOTHER_KIND)
def test_stamp_refuses_a_file_of_several_kinds(kind: str, tmp_path: Path) -> None:
    """A receiver measures one kind of frame: the others would arrive but count as lost."""
    frames = [udp_frame(b"u" * 40), OF_ANOTHER_KIND[kind]]
    file = write_pcap(tmp_path / "in.pcap", frames)
    assert "frame 2" in replay(file, "--stamp")
