"""Frames, capture files and checksums by code that shares nothing with the engine."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import count
from pathlib import Path

A_MAC, B_MAC = "02:00:00:00:0a:01", "02:00:00:00:0b:02"
MICRO, NANO = 0xA1B2C3D4, 0xA1B23C4D
LINK_ETHERNET = 1
FCS_BYTES = 4
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17
C_TAG, S_TAG = 0x8100, 0x88A8


def mac_bytes(text: str) -> bytes:
    """Return the six bytes of a MAC address."""
    return bytes.fromhex(text.replace(":", ""))


def ones_complement_sum(data: bytes) -> int:
    """Return the folded 16-bit sum of RFC 1071 (without the final complement)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def udp_frame(
    payload: bytes = b"",
    *,
    tags: Sequence[tuple[int, int]] = (),
    source: str = "198.18.0.1",
    destination: str = "198.18.0.2",
    ports: tuple[int, int] = (5000, 5000),
    pad_to: int = 60,
) -> bytes:
    """Return a UDP frame without FCS; `tags` are (EtherType, VLAN ID) from the outside in."""
    src, dst = ip_address(source).packed, ip_address(destination).packed
    length = 8 + len(payload)
    pseudo = src + dst + struct.pack("!HH", UDP, length)
    head = struct.pack("!HHH", *ports, length)
    total = ~ones_complement_sum(pseudo + head + payload) & 0xFFFF
    datagram = head + struct.pack("!H", total or 0xFFFF) + payload
    if len(src) == 4:
        fixed = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, UDP, 0)
        header = bytearray(fixed + src + dst)
        struct.pack_into("!H", header, 10, ~ones_complement_sum(bytes(header)) & 0xFFFF)
        kind, packet = IPV4, bytes(header) + datagram
    else:
        kind = IPV6
        packet = struct.pack("!IHBB", 6 << 28, length, UDP, 64) + src + dst + datagram
    tagged = b"".join(struct.pack("!HH", *tag) for tag in tags)
    frame = mac_bytes(B_MAC) + mac_bytes(A_MAC) + tagged + struct.pack("!H", kind) + packet
    return frame.ljust(pad_to, b"\0")


def arp_frame() -> bytes:
    """Return an ARP request of 42 bytes, as a sender hands it to its kernel (not padded)."""
    asks = struct.pack("!HHBBH", 1, IPV4, 6, 4, 1)
    sender = mac_bytes(A_MAC) + ip_address("198.18.0.1").packed
    return (
        b"\xff" * 6 + mac_bytes(A_MAC) + b"\x08\x06" + asks + sender
        + bytes(6) + ip_address("198.18.0.2").packed
    )  # fmt: skip


@dataclass(frozen=True)
class Packet:
    """A packet of a capture file."""

    time_ns: int
    wire_bytes: int  # its length on the wire
    data: bytes


def write_pcap(
    path: Path,
    frames: Iterable[bytes],
    times_ns: Iterable[int] | None = None,
    *,
    magic: int = NANO,
    order: str = "<",
    link: int = LINK_ETHERNET,
) -> Path:
    """Write a pcap file (https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/)."""
    unit_ns = 1 if magic == NANO else 1000
    with path.open("wb") as file:
        file.write(struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262144, link))
        for frame, time_ns in zip(frames, times_ns or count(0, 1000), strict=False):
            second, rest = divmod(time_ns, 1_000_000_000)
            head = (second, rest // unit_ns, len(frame), len(frame))
            file.write(struct.pack(f"{order}IIII", *head) + frame)
    return path


def read_pcap(path: Path) -> list[Packet]:
    """Return the packets of a pcap file of either byte order and either unit of time."""
    data = path.read_bytes()
    order = next(o for o in "<>" if struct.unpack_from(f"{o}I", data)[0] in (MICRO, NANO))
    unit_ns = 1 if struct.unpack_from(f"{order}I", data)[0] == NANO else 1000
    found, at = [], 24
    while at < len(data):
        second, rest, stored, wire = struct.unpack_from(f"{order}IIII", data, at)
        at += 16
        found.append(Packet(second * 10**9 + rest * unit_ns, wire, data[at : at + stored]))
        assert len(found[-1].data) == stored, "the file ends inside a packet"
        at += stored
    return found


@dataclass(frozen=True)
class Datagram:
    """The addresses of a UDP frame, and whether its checksums are right."""

    vlans: tuple[int, ...]
    source: str
    destination: str
    ports: tuple[int, int]
    payload: bytes
    sums_right: bool

    @property
    def flow(self) -> tuple[object, ...]:
        """Return what distinguishes flows: the tags and the 4-tuple."""
        return (self.vlans, self.source, self.destination, self.ports)


def parse(frame: bytes) -> Datagram:
    """Return the UDP datagram of a frame with any number of tags."""
    at, vlans = 12, []
    while (kind := struct.unpack_from("!H", frame, at)[0]) in (C_TAG, S_TAG):
        vlans.append(struct.unpack_from("!H", frame, at + 2)[0] & 0xFFF)
        at += 4
    start = at + 2
    if kind == IPV4:
        size, begin, end = 20, start + 12, start + 20
        sums_right = ones_complement_sum(frame[start : start + 20]) == 0xFFFF
        assert frame[start + 9] == UDP
    else:
        assert kind == IPV6, f"EtherType {kind:#x}"
        size, begin, end, sums_right = 40, start + 8, start + 40, True
        assert frame[start + 6] == UDP
    udp = start + size
    ports = struct.unpack_from("!HH", frame, udp)
    (length,) = struct.unpack_from("!H", frame, udp + 4)
    middle = (begin + end) // 2
    pseudo = frame[begin:end] + struct.pack("!HH", UDP, length)
    sums_right &= ones_complement_sum(pseudo + frame[udp : udp + length]) == 0xFFFF
    return Datagram(
        tuple(vlans), str(ip_address(frame[begin:middle])), str(ip_address(frame[middle:end])),
        ports, frame[udp + 8 : udp + length], sums_right,
    )  # fmt: skip
