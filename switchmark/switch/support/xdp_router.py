"""The BPF program of `xdp-redirect` for function `route`: the kernel's routing table is looked up
before the kernel makes a packet of the frame (`bpf_fib_lookup`).

Routes and neighbours are those of `kernel_routes.py`. The program checks the frame's MAC address,
lowers TTL or hop limit, corrects the IPv4 checksum, writes both MAC addresses, and redirects the
frame. The kernel permits the lookup to programs under the GPL only.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from switchmark.switch.support import bpf, bpf_calls
from switchmark.switch.support.bpf import Instruction
from switchmark.switch.support.xdp_acl import HEADERS, LITTLE, Filter, Header, bounds, one_byte

R0, R1, R2, R3, R4, _, R6, R7, _, _, FRAME = range(11)
CONTEXT_INGRESS = 12  # struct xdp_md
HELPER_FIB_LOOKUP = 69
FIB_BYTES, FIB_AT = 64, -80  # struct bpf_fib_lookup, and its place on the stack
FIB_IFINDEX, FIB_SOURCE, FIB_DESTINATION, FIB_SMAC, FIB_DMAC = 8, 16, 32, 52, 58
LICENCE = b"Dual BSD/GPL"


IPV4_VERSION, IPV4_CHECKSUM = 14, 24


@dataclass(frozen=True, slots=True)
class Router:
    """The program of one port: its number, its MAC address, and the maps."""

    index: int
    mac: str
    ip_version: int
    counts_fd: int
    devices_fd: int  # devices by interface number
    decrements_ttl: bool = True
    filter: Filter | None = None

    def program(self) -> bytes:
        """Return the program as the kernel reads it."""
        return bpf.assemble(self._instructions())

    def load(self) -> int:
        """Have the kernel verify and load the program; return its file descriptor. Raises
        `UnavailableError`."""
        return bpf_calls.load_program(
            bpf_calls.PROG_TYPE_XDP, self.program(), "an XDP program that routes",
            bpf_calls.XDP_HAS_FRAGS, LICENCE,
        )  # fmt: skip

    def _instructions(self) -> Iterator[Instruction]:
        header = HEADERS[self.ip_version]
        yield bpf.move(R6, R1)  # the context
        yield bpf.set_to(R1, self.index)
        yield bpf.store(32, FRAME, -4, R1)
        yield from bpf.find_value(self.counts_fd, -4, "drop")
        yield bpf.move(R7, R0)
        yield from bpf.increment(R7, 0)
        if self.filter is not None:
            yield from self.filter.instructions()
        yield from self._checks(header)
        yield from self._lookup(header)
        yield from bounds(R2, header.frame_bytes)
        yield from self._rewrite(header)
        yield bpf.load(32, R2, FRAME, FIB_AT + FIB_IFINDEX)
        yield from bpf.load_map(R1, self.devices_fd)
        yield bpf.set_to(R3, bpf.XDP_DROP)
        yield bpf.call(bpf.HELPER_REDIRECT_MAP)
        yield bpf.leave()
        first, *rest = bpf.increment(R7, 8)
        yield first.at("drop-counted")
        yield from rest
        yield bpf.set_to(R0, bpf.XDP_DROP).at("drop")
        yield bpf.leave()

    def _checks(self, header: Header) -> Iterator[Instruction]:
        """Drop frames to other MAC addresses, of other kinds, with options, or with a TTL of 1."""
        mac = bytes.fromhex(self.mac.replace(":", ""))
        yield from bounds(R2, header.frame_bytes)
        for offset in (0, 2, 4):
            yield bpf.load(16, R1, R2, offset)
            required = int.from_bytes(mac[offset : offset + 2], sys.byteorder)
            yield bpf.jump_unless_equal(R1, required, "drop-counted")
        yield bpf.load(16, R1, R2, 12)
        yield bpf.jump_unless_equal(R1, socket.htons(header.ethertype), "drop-counted")
        if header.family == socket.AF_INET:
            yield bpf.load(16, R1, R2, IPV4_VERSION)
            yield from one_byte(R1, is_first=True)
            yield bpf.jump_unless_equal(R1, 0x45, "drop-counted")
        yield bpf.load(16, R1, R2, header.ttl_pair)
        yield from one_byte(R1, is_first=header.ttl_is_first)
        yield bpf.jump_if_at_least(R1, 2, "route")
        yield bpf.jump("drop-counted")

    def _lookup(self, header: Header) -> Iterator[Instruction]:
        """Look the addresses up; frames without a route or neighbour are dropped."""
        yield bpf.set_to(R1, 0).at("route")
        for offset in range(0, FIB_BYTES, 8):
            yield bpf.store(64, FRAME, FIB_AT + offset, R1)
        # The first 16 bits are the family, a byte, and the protocol, a byte of 0.
        family = header.family if LITTLE else header.family << 8
        yield bpf.set_to(R1, family)
        yield bpf.store(16, FRAME, FIB_AT, R1)
        yield bpf.load(32, R1, R6, CONTEXT_INGRESS)
        yield bpf.store(32, FRAME, FIB_AT + FIB_IFINDEX, R1)
        for place, field in ((header.source, FIB_SOURCE), (header.destination, FIB_DESTINATION)):
            for offset in range(0, header.address_bytes, 4):
                yield bpf.load(32, R1, R2, place + offset)
                yield bpf.store(32, FRAME, FIB_AT + field + offset, R1)
        yield bpf.move(R1, R6)
        yield bpf.move(R2, FRAME)
        yield bpf.add(R2, FIB_AT)
        yield bpf.set_to(R3, FIB_BYTES)
        yield bpf.set_to(R4, 0)
        yield bpf.call(HELPER_FIB_LOOKUP)
        yield bpf.jump_unless_equal(R0, 0, "drop-counted")

    def _rewrite(self, header: Header) -> Iterator[Instruction]:
        """Write both MAC addresses, TTL or hop limit, and the IPv4 checksum."""
        for field, place in ((FIB_DMAC, 0), (FIB_SMAC, 6)):
            for offset in (0, 2, 4):
                yield bpf.load(16, R1, FRAME, FIB_AT + field + offset)
                yield bpf.store(16, R2, place + offset, R1)
        if not self.decrements_ttl:
            return
        yield bpf.load(16, R1, R2, header.ttl_pair)
        yield bpf.add(R1, -1 if header.ttl_is_first is LITTLE else -256)
        yield bpf.store(16, R2, header.ttl_pair, R1)
        if header.family != socket.AF_INET:
            return
        # RFC 1141: the sum grows by the number by which the header fell, with the carry.
        yield bpf.load(16, R1, R2, IPV4_CHECKSUM)
        yield bpf.add(R1, socket.htons(0x0100))
        yield bpf.jump_if_at_least(R1, 0xFFFF, "carry")
        yield bpf.jump("checksum")
        yield bpf.add(R1, 1).at("carry")
        yield bpf.store(16, R2, IPV4_CHECKSUM, R1).at("checksum")
