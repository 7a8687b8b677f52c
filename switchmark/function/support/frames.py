"""Frames of the proof: UDP in IPv4 or IPv6, with at most one VLAN tag; read and written in full.

Lengths are without FCS, as a port passes frames on. No speed is needed here."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, replace

ETHERTYPES = {4: 0x0800, 6: 0x86DD}
TAG = 0x8100
UDP = 17
IPV4_BYTES, IPV6_BYTES, UDP_BYTES = 20, 40, 8


@dataclass(frozen=True, slots=True)
class Frame:
    """A UDP frame by its fields."""

    source_mac: str
    destination_mac: str
    source: str
    destination: str
    source_port: int
    destination_port: int
    payload: bytes
    ttl: int = 64
    dscp: int = 0
    vid: int | None = None
    priority: int = 0

    @property
    def ip_version(self) -> int:
        """4 or 6."""
        return ipaddress.ip_address(self.source).version

    def to_bytes(self) -> bytes:
        """Return the frame without FCS, with right checksums."""
        tag = b"" if self.vid is None else struct.pack("!HH", TAG, self.priority << 13 | self.vid)
        ethernet = mac_bytes(self.destination_mac) + mac_bytes(self.source_mac) + tag
        ethernet += struct.pack("!H", ETHERTYPES[self.ip_version])
        udp_length = UDP_BYTES + len(self.payload)
        source = ipaddress.ip_address(self.source).packed
        destination = ipaddress.ip_address(self.destination).packed
        pseudo = source + destination + struct.pack("!HH", UDP, udp_length)
        ports = struct.pack("!HHH", self.source_port, self.destination_port, udp_length)
        checksum = internet_checksum(pseudo + ports + self.payload) or 0xFFFF
        udp = ports + struct.pack("!H", checksum) + self.payload
        if self.ip_version == 4:
            return ethernet + self._ipv4(source, destination, udp_length) + udp
        head = struct.pack("!IHBB", 6 << 28 | self.dscp << 22, udp_length, UDP, self.ttl)
        return ethernet + head + source + destination + udp

    def _ipv4(self, source: bytes, destination: bytes, udp_length: int) -> bytes:
        length = IPV4_BYTES + udp_length
        front = struct.pack("!BBHHHBB", 0x45, self.dscp << 2, length, 0, 0, self.ttl, UDP)
        checksum = internet_checksum(front + source + destination)
        return front + struct.pack("!H", checksum) + source + destination


def parse(raw: bytes) -> Frame:
    """Read a frame, which may have padding behind it. Raises ValueError for any other kind of
    frame, and for a wrong checksum or length."""
    if len(raw) < 14:
        raise ValueError("shorter than an Ethernet header")
    vid, priority, at = None, 0, 12
    if struct.unpack_from("!H", raw, at)[0] == TAG and len(raw) >= 18:
        tci = struct.unpack_from("!H", raw, 14)[0]
        vid, priority, at = tci & 0xFFF, tci >> 13, 16
    kind = struct.unpack_from("!H", raw, at)[0]
    ip = raw[at + 2 :]
    version = next((v for v, ethertype in ETHERTYPES.items() if ethertype == kind), None)
    if version is None:
        raise ValueError(f"EtherType 0x{kind:04x} is not IP")
    if len(ip) < (IPV4_BYTES if version == 4 else IPV6_BYTES) + UDP_BYTES:
        raise ValueError("shorter than its headers")
    if version == 4:
        if ip[0] != 0x45:
            raise ValueError("IPv4 header with options")
        if internet_checksum(ip[:IPV4_BYTES]) != 0:
            raise ValueError("wrong IPv4 checksum")
        length, ttl, protocol = struct.unpack_from("!H", ip, 2)[0], ip[8], ip[9]
        dscp, source, destination = ip[1] >> 2, ip[12:16], ip[16:20]
        udp = ip[IPV4_BYTES:length]
    else:
        length, protocol, ttl = struct.unpack_from("!HBB", ip, 4)
        dscp = struct.unpack_from("!I", ip)[0] >> 22 & 0x3F
        source, destination = ip[8:24], ip[24:40]
        udp = ip[IPV6_BYTES : IPV6_BYTES + length]
    if len(ip) < length + (0 if version == 4 else IPV6_BYTES):
        raise ValueError("shorter than its IP length")
    if protocol != UDP or len(udp) < UDP_BYTES:
        raise ValueError("not a whole UDP datagram")
    source_port, destination_port, udp_length, checksum = struct.unpack_from("!HHHH", udp)
    if udp_length != len(udp):
        raise ValueError(f"UDP length {udp_length}, but {len(udp)} bytes")
    pseudo = source + destination + struct.pack("!HH", UDP, udp_length)
    if checksum and internet_checksum(pseudo + udp) != 0:
        raise ValueError("wrong UDP checksum")
    return Frame(
        mac_text(raw[6:12]), mac_text(raw[:6]),
        str(ipaddress.ip_address(source)), str(ipaddress.ip_address(destination)),
        source_port, destination_port, udp[UDP_BYTES:], ttl, dscp, vid, priority,
    )  # fmt: skip


def differences(expected: Frame, arrived: Frame) -> list[str]:
    """Return the fields in which a frame differs from the expected frame, in words."""
    return [
        f"{name.replace('_', ' ')} is {getattr(arrived, name)!r}, not {getattr(expected, name)!r}"
        for name in Frame.__slots__
        if getattr(arrived, name) != getattr(expected, name)
    ]


def routed(frame: Frame, source_mac: str, destination_mac: str, decrement: int = 1) -> Frame:
    """Return the frame as a router sends it on."""
    return replace(
        frame, source_mac=source_mac, destination_mac=destination_mac, ttl=frame.ttl - decrement
    )


def internet_checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071; 0 for data that includes its right checksum."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def mac_bytes(text: str) -> bytes:
    """Return a MAC address as bytes."""
    return bytes(int(part, 16) for part in text.split(":"))


def mac_text(raw: bytes) -> str:
    """Return a MAC address as text."""
    return ":".join(f"{byte:02x}" for byte in raw)
