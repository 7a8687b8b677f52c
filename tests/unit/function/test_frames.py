"""Frames of the proof are written and read back."""

import struct

import pytest

from switchmark.function.support.frames import Frame, differences, internet_checksum, parse

FRAMES = [
    Frame("02:00:00:00:00:01", "02:00:00:00:00:02", "192.0.2.1", "192.0.2.2", 1, 65535, b"x" * 19),
    Frame("02:00:00:00:00:01", "02:00:00:00:00:02", "2001:db8::1", "2001:db8::2", 7, 9, b"payload",
          ttl=3, dscp=46),
    Frame("02:00:00:00:00:01", "02:00:00:00:00:02", "192.0.2.1", "192.0.2.2", 1, 2, b"", vid=100,
          priority=5),
]  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_reads_back_as_it_was(frame: Frame) -> None:
    assert parse(frame.to_bytes()) == frame
    assert parse(frame.to_bytes() + bytes(20)) == frame  # padding
    assert differences(frame, frame) == []


@pytest.mark.parametrize("frame", FRAMES)
def test_every_changed_byte_is_noticed(frame: Frame) -> None:
    raw = frame.to_bytes()
    for at in range(len(raw)):
        changed = bytearray(raw)
        changed[at] ^= 0x11
        try:
            result = parse(bytes(changed))
        except ValueError:
            continue
        assert result != frame or at in _unread(frame), at


def _unread(frame: Frame) -> set[int]:
    """Bytes that the reader does not compare: the flow label, and bits of the IP identification."""
    start = 14 if frame.vid is None else 18
    return set() if frame.ip_version == 4 else {start + 1, start + 2, start + 3}


def test_the_checksum_is_that_of_rfc_1071() -> None:
    data = bytes.fromhex("0001f203f4f5f6f7")
    assert internet_checksum(data) == ~0xDDF2 & 0xFFFF
    assert internet_checksum(data + struct.pack("!H", internet_checksum(data))) == 0


@pytest.mark.parametrize("raw", [b"", bytes(14), bytes(60), b"\xff" * 60])
def test_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(raw)
