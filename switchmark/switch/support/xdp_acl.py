"""The access control list of `xdp-redirect`: a hash map, which the BPF program searches once for
each combination of masks in the list (tuple space search).

A key is the number of the combination, the protocol, both ports and both addresses, masked. A
value is the place of the rule in the list, with its verdict in the lowest bit. The program looks
every combination up, and the lowest place decides.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from switchmark.errors import Refusal
from switchmark.function.support.table import PORT_PROTOCOLS, FunctionTable, Rule
from switchmark.switch.support import bpf, bpf_calls
from switchmark.switch.support.bpf import Instruction

R0, R1, R2, R3, R4, _, R6, _, R8, R9, FRAME = range(11)
CONTEXT_DATA, CONTEXT_DATA_END = 0, 4  # struct xdp_md
LITTLE = sys.byteorder == "little"
RULES_MOST = 100_000
MASKS_MOST = 64  # the program grows with each of them
KEY_AT, VALUE_BYTES = -120, 4
NO_RULE = 0x7FFF_FFFE  # behind every place; the verdict of the default is added
PORT_BYTES = 4
IPV4_VERSION, IPV4_FRAGMENT = 14, 20


@dataclass(frozen=True, slots=True)
class Header:
    """The place of fields in a frame without VLAN tag, by IP version."""

    family: int
    ethertype: int
    frame_bytes: int  # Ethernet and IP header
    ttl_pair: int  # two bytes: TTL and protocol, or next header and hop limit
    ttl_is_first: bool
    source: int
    destination: int
    address_bytes: int


HEADERS = {
    4: Header(socket.AF_INET, 0x0800, 34, 22, True, 26, 30, 4),
    6: Header(socket.AF_INET6, 0x86DD, 54, 20, False, 22, 38, 16),
}


@dataclass(frozen=True, slots=True)
class Masks:
    """The parts of a frame that a rule compares."""

    source_bits: int
    destination_bits: int
    has_protocol: bool
    has_source_port: bool
    has_destination_port: bool

    @classmethod
    def of(cls, rule: Rule) -> Masks:
        """Return the masks of a rule."""
        return cls(
            ipaddress.ip_network(rule.source).prefixlen,
            ipaddress.ip_network(rule.destination).prefixlen,
            rule.protocol is not None,
            rule.source_ports is not None,
            rule.destination_ports is not None,
        )

    @property
    def ports(self) -> bytes:
        """The mask of both ports."""
        both = (self.has_source_port, self.has_destination_port)
        return b"".join(b"\xff\xff" if compared else bytes(2) for compared in both)


def refusal(table: FunctionTable) -> Refusal | None:
    """Return why the program cannot express a list; None if it can."""
    for number, rule in enumerate(table.rules):
        ranges = [ports for ports in rule.ports if ports]
        if any(low != high for low, high in ranges):
            return Refusal(
                f"rule {number} has a range of ports; keys of BPF maps are exact",
                "use single ports, or leave xdp-redirect out",
            )
        if ranges and rule.protocol not in PORT_PROTOCOLS:
            return Refusal(
                f"rule {number} has ports and protocol {rule.protocol}",
                "use protocol 6 or 17 for rules with ports",
            )
    combinations = len({Masks.of(rule) for rule in table.rules})
    if combinations > MASKS_MOST:
        return Refusal(
            f"the list has {combinations} combinations of masks; the program has "
            f"room for {MASKS_MOST}",
            "use fewer masks, or leave xdp-redirect out",
        )
    return None


def entries_of(table: FunctionTable) -> tuple[list[Masks], dict[bytes, bytes]]:
    """Return the combinations of masks, and the entries of the map. Of rules with one key the first
    one counts."""
    numbers: dict[Masks, int] = {}
    entries: dict[bytes, bytes] = {}
    for place, rule in enumerate(table.rules):
        number = numbers.setdefault(Masks.of(rule), len(numbers))
        ports = struct.pack("!HH", *((p or (0, 0))[0] for p in rule.ports))
        key = struct.pack("=I", number << 8 | (rule.protocol or 0)) + ports
        for prefix in (rule.source, rule.destination):
            key += ipaddress.ip_network(prefix).network_address.packed
        entries.setdefault(key, struct.pack("=I", place << 1 | rule.permit))
    return list(numbers), entries


@dataclass(frozen=True, slots=True)
class Filter:
    """A list in a map of the kernel."""

    map_fd: int
    masks: list[Masks]
    entries: int
    ip_version: int
    default_permit: bool

    @classmethod
    def load(cls, table: FunctionTable) -> Filter:
        """Load the list of a table into a new map. Raises `UnavailableError`."""
        masks, entries = entries_of(table)
        key_bytes = 8 + 2 * table.address_bytes
        map_fd = bpf_calls.create_map(
            bpf_calls.MAP_HASH, key_bytes, VALUE_BYTES, max(1, len(entries))
        )
        for key, value in entries.items():
            bpf_calls.update(map_fd, key, value)
        return cls(map_fd, masks, len(entries), table.ip_version, table.default_permit)

    def count(self) -> int:
        """Return the number of entries that the kernel has."""
        return bpf_calls.count_keys(self.map_fd, 8 + 2 * HEADERS[self.ip_version].address_bytes)

    def instructions(self) -> Iterator[Instruction]:
        """Go on if the list permits the frame, or jump to `drop-counted`. R6 is the context; R8 and
        R9 are lost. Frames of another type than the IP version get the verdict of the default.
        Frames with IPv4 options, later fragments and frames without room for ports are dropped."""
        header = HEADERS[self.ip_version]
        yield from self._other_types(header)
        yield from bounds(R9, header.frame_bytes + PORT_BYTES)
        if header.family == socket.AF_INET:
            yield bpf.load(16, R1, R9, IPV4_VERSION)
            yield from one_byte(R1, is_first=True)
            yield bpf.jump_unless_equal(R1, 0x45, "drop-counted")
            yield bpf.load(16, R1, R9, IPV4_FRAGMENT)
            yield bpf.mask(R1, socket.htons(0x1FFF))
            yield bpf.jump_unless_equal(R1, 0, "drop-counted")
        yield bpf.set_to(R8, NO_RULE | self.default_permit)
        for number, masks in enumerate(self.masks):
            following = f"masks-{number + 1}" if number + 1 < len(self.masks) else "verdict"
            first, *rest = self._key(header, number, masks)
            yield first.at(f"masks-{number}")
            yield from rest
            yield from bpf.find_value(self.map_fd, KEY_AT, following)
            yield bpf.load(32, R1, R0, 0)
            yield bpf.jump_if_greater(R1, R8, following)
            yield bpf.move(R8, R1)
        yield bpf.mask(R8, 1).at("verdict")
        yield bpf.jump_unless_equal(R8, 1, "drop-counted")
        yield bpf.set_to(R8, 0).at("permitted")

    def _other_types(self, header: Header) -> Iterator[Instruction]:
        yield from bounds(R9, 14)
        yield bpf.load(16, R1, R9, 12)
        yield bpf.jump_if_equal(R1, socket.htons(header.ethertype), "listed")
        yield bpf.jump("permitted" if self.default_permit else "drop-counted")
        yield bpf.set_to(R8, 0).at("listed")

    def _key(self, header: Header, number: int, masks: Masks) -> Iterator[Instruction]:
        """Write the key of a combination of masks on the stack."""
        if masks.has_protocol:
            yield bpf.load(16, R1, R9, header.ttl_pair)
            yield from one_byte(R1, is_first=not header.ttl_is_first)
            yield bpf.add(R1, number << 8)
        else:
            yield bpf.set_to(R1, number << 8)
        yield bpf.store(32, FRAME, KEY_AT, R1)
        yield from _masked(header.frame_bytes, KEY_AT + 4, masks.ports)
        at = KEY_AT + 8
        fields = ((header.source, masks.source_bits), (header.destination, masks.destination_bits))
        for place, bits in fields:
            mask = _mask_bytes(bits, header.address_bytes)
            for offset in range(0, header.address_bytes, 4):
                yield from _masked(place + offset, at, mask[offset : offset + 4])
                at += 4


def _mask_bytes(bits: int, width: int) -> bytes:
    return ((1 << 8 * width) - (1 << 8 * width - bits)).to_bytes(width, "big")


def _masked(place: int, at: int, mask: bytes) -> Iterator[Instruction]:
    """Write 4 bytes of the frame on the stack, masked."""
    if not any(mask):
        yield bpf.set_to(R1, 0)
    else:
        yield bpf.load(32, R1, R9, place)
        if mask != b"\xff" * 4:
            yield bpf.mask(R1, int.from_bytes(mask, sys.byteorder, signed=True))
    yield bpf.store(32, FRAME, at, R1)


def one_byte(register: int, *, is_first: bool) -> Iterator[Instruction]:
    """Reduce two bytes that were loaded to the first or the second."""
    if is_first is LITTLE:
        yield bpf.mask(register, 0xFF)
    else:
        yield bpf.shift_right(register, 8)


def bounds(register: int, length: int) -> Iterator[Instruction]:
    """Set a register to the frame, which has at least this length, or jump to `drop-counted`."""
    yield bpf.load(32, register, R6, CONTEXT_DATA)
    yield bpf.load(32, R3, R6, CONTEXT_DATA_END)
    yield bpf.move(R4, register)
    yield bpf.add(R4, length)
    yield bpf.jump_if_greater(R4, R3, "drop-counted")
