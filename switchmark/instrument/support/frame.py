"""The frames of a load byte by byte, for instruments that take no addresses."""

from __future__ import annotations

import ipaddress
import struct

from switchmark.function.support.frames import Frame
from switchmark.instrument.support.base import Job
from switchmark.instrument.support.udp import ETHERNET, FCS, IPV4, UDP, UDP_PORT, address

_TTL, _UDP_PROTOCOL, _IPV4_TYPE = 64, 17, 0x0800


def flow_frame(job: Job) -> Frame:
    """The only flow of a load, for instruments that take addresses; its payload plays no part."""
    if job.load:
        return job.load[0].frame
    source, target = job.source, job.target
    return Frame(
        source.port.mac, source.port.peer_mac, address(source), address(target), UDP_PORT,
        UDP_PORT, b"",
    )  # fmt: skip


def load_bytes(job: Job) -> list[bytes]:
    """The frames of the load without FCS, one a flow."""
    return [one.to_bytes() for one in job.load] or [udp_frame(job)]


def udp_frame(job: Job) -> bytes:
    """From source to target, of the trial's size without the FCS, with a payload of zeros. The UDP
    checksum is left out, as IPv4 allows."""
    size = job.trial.packet_size_bytes - FCS
    source, target = job.source, job.target
    macs = bytes.fromhex((source.port.peer_mac + source.port.mac).replace(":", ""))
    ips = b"".join(ipaddress.IPv4Address(address(end)).packed for end in (source, target))
    length = size - ETHERNET
    header = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, _TTL, _UDP_PROTOCOL, 0) + ips
    checked = header[:10] + struct.pack("!H", _internet_checksum(header)) + header[12:]
    udp = struct.pack("!HHHH", UDP_PORT, UDP_PORT, length - IPV4, 0)
    frame = macs + struct.pack("!H", _IPV4_TYPE) + checked + udp
    return frame + bytes(size - ETHERNET - IPV4 - UDP)


def _internet_checksum(data: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
