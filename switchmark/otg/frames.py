"""The sequence of a flow's frames, and the pcap file from which the engine replays it.

The engine makes all frames that its options can describe. A file serves patterns, sequences and
counts for which it has no option. In both cases the engine puts its stamp into each payload, so
that loss, order and delay are measured. It does not change a payload that the client gave.
"""

from __future__ import annotations

import ipaddress
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from switchmark.function.support.frames import internet_checksum, mac_bytes
from switchmark.model.choices import FCS_BYTES

Bytes = npt.NDArray[np.uint8]  # one row per frame
Numbers = npt.NDArray[np.int64]

_PCAP_NS = 0xA1B23C4D
_ETHERNET = 1
_UDP = 17
_RECORD_BYTES = 16
MOST_FRAMES = 65_536  # in a file that the engine replays


@dataclass(frozen=True, slots=True)
class Addresses:
    """The header fields of one frame."""

    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    src_port: int
    dst_port: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """The values that each field takes in turn; all fields advance from frame to frame."""

    src_mac: Sequence[str]
    dst_mac: Sequence[str]
    src_ip: Sequence[str]
    dst_ip: Sequence[str]
    src_port: Sequence[int]
    dst_port: Sequence[int]
    vlans: Sequence[int]  # the same in all frames, outermost first
    payload: bytes = b""  # the client's payload behind UDP, the same in all frames

    @property
    def fields(self) -> tuple[Sequence[Any], ...]:
        """The fields that have addresses, in the order of `Addresses`."""
        return (
            self.src_mac, self.dst_mac, self.src_ip, self.dst_ip, self.src_port, self.dst_port,
        )  # fmt: skip

    @property
    def length(self) -> int:
        """The number of frames after which the combinations repeat."""
        return math.lcm(*map(len, self.fields))

    def at(self, index: int) -> Addresses:
        """Return the addresses of the frame with this number."""
        return Addresses(*(values[index % len(values)] for values in self.fields))


def frame(
    addresses: Addresses, vlans: Sequence[int], size_bytes: int, payload: bytes = b""
) -> bytes:
    """Return one UDP frame without its FCS, which `size_bytes` counts; zeros follow the payload."""
    src, dst = ipaddress.ip_address(addresses.src_ip), ipaddress.ip_address(addresses.dst_ip)
    ether_type = 0x0800 if src.version == 4 else 0x86DD
    head = mac_bytes(addresses.dst_mac) + mac_bytes(addresses.src_mac)
    for place, vlan in enumerate(vlans):
        outer = place == 0 and len(vlans) > 1
        head += struct.pack("!HH", 0x88A8 if outer else 0x8100, vlan)
    head += struct.pack("!H", ether_type)
    ip_bytes = 20 if src.version == 4 else 40
    udp_bytes = size_bytes - FCS_BYTES - len(head) - ip_bytes
    udp = struct.pack("!HHHH", addresses.src_port, addresses.dst_port, udp_bytes, 0)
    pseudo = src.packed + dst.packed + struct.pack("!HH", udp_bytes, _UDP)
    # The zeros behind the payload do not change the checksum.
    checksum = internet_checksum(pseudo + udp + payload) or 0xFFFF
    udp = udp[:6] + struct.pack("!H", checksum)
    if src.version == 4:
        total = ip_bytes + udp_bytes
        fields = struct.pack("!BBHHHBBH", 0x45, 0, total, 0, 0x4000, 64, _UDP, 0)
        network = fields + src.packed + dst.packed
        network = network[:10] + struct.pack("!H", internet_checksum(network)) + network[12:]
    else:
        network = struct.pack("!IHBB", 6 << 28, udp_bytes, _UDP, 64) + src.packed + dst.packed
    return (head + network + udp + payload).ljust(size_bytes - FCS_BYTES, b"\0")


def smallest_frame_bytes(ip_version: int, vlans: int, payload: bytes = b"") -> int:
    """Return the size with FCS of the smallest frame that holds the headers and the payload, which
    is the engine's stamp if the client gave none."""
    payload_bytes = len(payload) or 18
    header_bytes = 14 + 4 * vlans + (20 if ip_version == 4 else 40) + 8
    return max(64, header_bytes + payload_bytes + FCS_BYTES)


def write_pcap(
    path: Path, cycle: Cycle, sizes: Sequence[int], count: int, times_ns: Sequence[int]
) -> None:
    """Write `count` frames, as `frame` makes them, with these sizes in turn and these times."""
    lengths = np.resize(np.array(sizes, np.int64), count) - FCS_BYTES
    heads = _heads(cycle, lengths)
    seconds, rest = np.divmod(np.array(times_ns, np.int64), 1_000_000_000)
    records = np.stack([seconds, rest, lengths, lengths], axis=1).astype("<u4").view(np.uint8)
    starts = np.concatenate([[0], np.cumsum(lengths + _RECORD_BYTES)])
    content = np.zeros(int(starts[-1]), np.uint8)
    for part, shift in ((records, 0), (heads, _RECORD_BYTES)):
        content[(starts[:-1, None] + shift) + np.arange(part.shape[1])] = part
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, 65535, _ETHERNET))
        file.write(content.data)


def _heads(cycle: Cycle, lengths: Numbers) -> Bytes:
    """Return each frame up to the end of its payload."""
    count = len(lengths)
    src_mac, dst_mac = (_column(v, mac_bytes, count) for v in (cycle.src_mac, cycle.dst_mac))
    src, dst = (_column(v, _packed, count) for v in (cycle.src_ip, cycle.dst_ip))
    ports = [_column(v, _two, count) for v in (cycle.src_port, cycle.dst_port)]
    tags = b""
    for place, vlan in enumerate(cycle.vlans):
        outer = place == 0 and len(cycle.vlans) > 1
        tags += struct.pack("!HH", 0x88A8 if outer else 0x8100, vlan)
    is_ipv4 = src.shape[1] == 4
    kind = _same(tags + (b"\x08\x00" if is_ipv4 else b"\x86\xdd"), count)
    ip_bytes = 20 if is_ipv4 else 40
    udp_bytes = lengths - 12 - kind.shape[1] - ip_bytes
    payload = _same(cycle.payload, count)
    total = _words(src, dst, *ports) + 2 * udp_bytes + _UDP + _words(payload)
    checksum = _folded(total)
    checksum[checksum == 0] = 0xFFFF
    udp = [*ports, _big_endian(udp_bytes), _big_endian(checksum)]
    if is_ipv4:
        network = [
            _same(b"\x45\0", count), _big_endian(ip_bytes + udp_bytes),
            _same(b"\0\0\x40\0\x40\x11", count),
        ]  # fmt: skip
        network = [*network, _big_endian(_folded(_words(*network, src, dst))), src, dst]
    else:
        start = _same(struct.pack("!I", 6 << 28), count)
        network = [start, _big_endian(udp_bytes), _same(b"\x11\x40", count), src, dst]
    return np.hstack([dst_mac, src_mac, kind, *network, *udp, payload])


def _column(values: Sequence[Any], packed: Callable[[Any], bytes], count: int) -> Bytes:
    """Return a field of all frames: its values in turn."""
    rows = np.array([list(packed(value)) for value in values[:count]], np.uint8)
    return np.asarray(rows[np.arange(count) % len(rows)])


def _same(data: bytes, count: int) -> Bytes:
    return np.tile(np.frombuffer(data, np.uint8), (count, 1))


def _big_endian(numbers: Numbers) -> Bytes:
    return np.stack([numbers >> 8 & 0xFF, numbers & 0xFF], axis=1).astype(np.uint8)


def _words(*parts: Bytes) -> Numbers:
    """Return for each frame the sum of the 16-bit words of its parts; the last byte of an odd
    number is the high byte of a word."""
    total = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        total += part[:, 0::2].sum(axis=1, dtype=np.int64) << 8
        total += part[:, 1::2].sum(axis=1, dtype=np.int64)
    return total


def _folded(total: Numbers) -> Numbers:
    """Return the checksum of each sum (RFC 1071)."""
    while (total >> 16).any():
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def _two(number: int) -> bytes:
    return number.to_bytes(2, "big")
