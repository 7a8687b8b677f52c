"""A frame of the proof as bytes on a port: plain, or inside the outer headers of a VXLAN tunnel.

Switches may choose some outer fields freely (TTL, DSCP, IP identification, the don't-fragment bit,
the UDP source port, a UDP checksum of 0). The comparison leaves them out and checks that they are
legal; `free_fields` returns them for the record."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from switchmark.function.support.frames import (
    ETHERTYPES,
    UDP,
    Frame,
    internet_checksum,
    mac_text,
    parse,
)
from switchmark.function.support.functions import Passing
from switchmark.function.support.table import FunctionTable, Tunnel

VXLAN_PORT = 4789
SOURCE_PORT = 51000  # UDP source port of encapsulated frames that the tester sends
VNI_IS_VALID = 0x08
MOST_FRAGMENT_BITS = 0x4000  # don't fragment


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer headers of an encapsulated frame."""

    source_mac: str
    destination_mac: str
    source: str
    destination: str
    ttl: int
    dscp: int
    identification: int
    fragment: int  # flags and offset
    source_port: int
    destination_port: int
    checksum: int
    flags: int
    vni: int


def wire_bytes(passing: Passing, tunnel: Tunnel | None) -> bytes:
    """Return the bytes of a frame as the tester sends it, inside a tunnel from its remote end."""
    inner = passing.frame.to_bytes()
    return inner if tunnel is None else encapsulated(inner, tunnel)


def encapsulated(inner: bytes, tunnel: Tunnel) -> bytes:
    """Return a frame inside the outer headers that the remote end of a tunnel sends."""
    payload = struct.pack("!BxxxI", VNI_IS_VALID, tunnel.vni << 8) + inner
    outer = Frame(
        tunnel.remote_mac, tunnel.local_mac, tunnel.remote, tunnel.local, SOURCE_PORT, VXLAN_PORT,
        payload,
    )  # fmt: skip
    return outer.to_bytes()


def arrived_frame(table: FunctionTable, data: bytes, expected: Passing) -> tuple[Frame, list[str]]:
    """Return the frame that arrived, without outer headers, and the mistakes in these. Raises
    ValueError if the bytes are not such a frame."""
    del table
    if expected.tunnel is None:
        return parse(data), []
    outer, inner = split_outer(data)
    return parse(inner), outer_mistakes(outer, expected.tunnel)


def outer_mistakes(outer: Outer, tunnel: Tunnel) -> list[str]:
    """Return the outer fields that differ from the tunnel, or that are illegal, in words."""
    demanded = {
        "VNI": (outer.vni, tunnel.vni),
        "outer source MAC": (outer.source_mac, tunnel.local_mac),
        "outer destination MAC": (outer.destination_mac, tunnel.remote_mac),
        "outer source": (outer.source, tunnel.local),
        "outer destination": (outer.destination, tunnel.remote),
        "outer destination port": (outer.destination_port, VXLAN_PORT),
        "VXLAN flags": (outer.flags, VNI_IS_VALID),
    }
    mistakes = [f"{name} is {seen}, not {right}"
                for name, (seen, right) in demanded.items() if seen != right]  # fmt: skip
    if outer.ttl == 0:
        mistakes.append("outer TTL is 0")
    if outer.source_port == 0:
        mistakes.append("outer source port is 0")
    if outer.fragment & ~MOST_FRAGMENT_BITS:
        mistakes.append("the outer packet is a fragment")
    return mistakes


def free_fields(data: bytes) -> dict[str, str]:
    """Return the outer fields that a switch chooses."""
    outer, _ = split_outer(data)
    return {
        "ttl": str(outer.ttl),
        "dscp": str(outer.dscp),
        "ip_identification": str(outer.identification),
        "dont_fragment": "set" if outer.fragment else "clear",
        "udp_source_port": str(outer.source_port),
        "udp_checksum": "right" if outer.checksum else "0",
    }


def split_outer(data: bytes) -> tuple[Outer, bytes]:
    """Return the outer headers and the inner frame. Raises ValueError for any other frame, and for
    wrong checksums and lengths."""
    if len(data) < 14:
        raise ValueError("shorter than an Ethernet header")
    kind = struct.unpack_from("!H", data, 12)[0]
    version = next((v for v, ethertype in ETHERTYPES.items() if ethertype == kind), None)
    if version is None:
        raise ValueError(f"it is not in a tunnel: EtherType 0x{kind:04x}")
    ip_bytes = 20 if version == 4 else 40
    ip = data[14:]
    if len(ip) < ip_bytes + 16:
        raise ValueError("it is not in a tunnel: shorter than the outer headers")
    packet = _ipv4(ip) if version == 4 else _ipv6(ip)
    source_port, destination_port, checksum = _udp_header(packet, version)
    flags, low = struct.unpack_from("!II", packet.udp, 8)
    if flags & 0x00FFFFFF or low & 0xFF:
        raise ValueError("reserved bits of the VXLAN header are set")
    outer = Outer(
        mac_text(data[6:12]), mac_text(data[:6]),
        str(ipaddress.ip_address(packet.source)), str(ipaddress.ip_address(packet.destination)),
        packet.ttl, packet.dscp, packet.identification, packet.fragment,
        source_port, destination_port, checksum, flags >> 24, low >> 8,
    )  # fmt: skip
    return outer, packet.udp[16:]


@dataclass(frozen=True, slots=True)
class _Packet:
    """An outer IP packet: its fields, and its UDP datagram."""

    protocol: int
    source: bytes
    destination: bytes
    ttl: int
    dscp: int
    identification: int
    fragment: int
    udp: bytes


def _ipv4(ip: bytes) -> _Packet:
    if ip[0] != 0x45:
        raise ValueError("outer IPv4 header with options")
    if internet_checksum(ip[:20]) != 0:
        raise ValueError("wrong outer IPv4 checksum")
    length, identification, fragment, ttl, protocol = struct.unpack_from("!HHHBB", ip, 2)
    return _Packet(protocol, ip[12:16], ip[16:20], ttl, ip[1] >> 2, identification, fragment,
                   ip[20:length])  # fmt: skip


def _ipv6(ip: bytes) -> _Packet:
    head, length, protocol, ttl = struct.unpack_from("!IHBB", ip)
    return _Packet(protocol, ip[8:24], ip[24:40], ttl, head >> 22 & 0x3F, 0, 0,
                   ip[40 : 40 + length])  # fmt: skip


def _udp_header(packet: _Packet, version: int) -> tuple[int, int, int]:
    """Return source port, destination port and checksum. Raises ValueError if the datagram is not
    that of a tunnel, or wrong."""
    udp = packet.udp
    if packet.protocol != UDP:
        raise ValueError(f"it is not in a tunnel: IP protocol {packet.protocol}")
    if len(udp) < 16:
        raise ValueError("it is not in a tunnel: shorter than the outer headers")
    source_port, destination_port, length, checksum = struct.unpack_from("!HHHH", udp)
    if destination_port != VXLAN_PORT:
        raise ValueError(f"it is not in a tunnel: UDP port {destination_port}")
    if length != len(udp):
        raise ValueError(f"outer UDP length {length}, but {len(udp)} bytes")
    pseudo = packet.source + packet.destination + struct.pack("!HH", UDP, length)
    if checksum and internet_checksum(pseudo + udp) != 0:
        raise ValueError("wrong outer UDP checksum")
    if version == 6 and not checksum:
        raise ValueError("outer UDP checksum 0 in IPv6")
    return source_port, destination_port, checksum
