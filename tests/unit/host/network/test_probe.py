"""The first packet of a TCP connection, as the probe of a published port sends it."""

from __future__ import annotations

import socket
import struct

from switchmark.host.network.probe import syn


def test_a_syn_has_its_ports_number_and_a_right_checksum() -> None:
    segment = syn(("10.1.2.3", 40001), ("10.9.8.7", 8080), 0xDEADBEEF)
    source, target, number, acknowledged, offset_and_flags = struct.unpack("!HHIIH", segment[:14])
    assert (source, target, number, acknowledged) == (40001, 8080, 0xDEADBEEF, 0)
    assert (offset_and_flags >> 12) * 4 == len(segment) and offset_and_flags & 0x3F == 0x02
    addresses = socket.inet_aton("10.1.2.3") + socket.inet_aton("10.9.8.7")
    whole = addresses + struct.pack("!BBH", 0, 6, len(segment)) + segment
    total = sum(struct.unpack(f"!{len(whole) // 2}H", whole))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF, "the checksum of a right packet"
