"""Messages of netlink that add and remove routes, and the answers to them."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct

import numpy as np
import pytest

from switchmark.host.kernel import routes


def messages(version: int, count: int, *, remove: bool = False) -> list[bytes]:
    first = ipaddress.ip_address("10.0.0.0" if version == 4 else "2001:db8::")
    width = len(first.packed)
    packed = b"".join((first + number).packed for number in range(count))
    networks = np.frombuffer(packed, np.uint8).reshape(count, width)
    lengths = np.full(count, 8 * width)
    return routes.route_messages(networks, lengths, networks, np.full(count, 7), remove=remove)


@pytest.mark.parametrize(("version", "family"), [(4, socket.AF_INET), (6, socket.AF_INET6)])
def test_message_has_network_gateway_and_device(version: int, family: int) -> None:
    (part,) = messages(version, 2)
    length, kind, flags, sequence, _ = routes.HEADER.unpack_from(part)
    assert (2 * length, kind, sequence) == (len(part), routes.RTM_NEWROUTE, 0)
    assert flags & routes.NLM_F_EXCL and not flags & routes.NLM_F_ACK
    row = routes.ROUTE.unpack_from(part, routes.HEADER.size)
    assert row[:2] == (family, 32 if version == 4 else 128)
    at, attributes = routes.HEADER.size + routes.ROUTE.size, {}
    while at < length:
        size, name = struct.unpack_from("=HH", part, at)
        attributes[name] = part[at + 4 : at + size]
        at += size
    first = ipaddress.ip_address("10.0.0.0" if version == 4 else "2001:db8::").packed
    assert attributes[routes.RTA_DST] == attributes[routes.RTA_GATEWAY] == first
    assert attributes[routes.RTA_OIF] == struct.pack("=I", 7)


def test_last_message_of_each_part_asks_for_an_answer() -> None:
    parts = messages(4, routes.MESSAGES_A_CALL + 1, remove=True)
    assert len(parts) == 2
    for part in parts:
        length = routes.HEADER.unpack_from(part)[0]
        rows = [routes.HEADER.unpack_from(part, at) for at in range(0, len(part), length)]
        assert [bool(row[2] & routes.NLM_F_ACK) for row in rows] == [False] * (len(rows) - 1) + [
            True
        ]
        assert {row[1] for row in rows} == {routes.RTM_DELROUTE}


def answer(sequence: int, error: int) -> bytes:
    body = struct.pack("=i", -error) + bytes(16)
    length = routes.HEADER.size + len(body)
    return routes.HEADER.pack(length, routes.NLMSG_ERROR, 0, sequence, 0) + body


def test_refused_route_is_named_and_others_are_acknowledged() -> None:
    assert routes._is_acknowledged(answer(4, 0), 4)
    assert not routes._is_acknowledged(answer(3, 0), 4)
    with pytest.raises(OSError, match="route 3: File exists") as refused:
        routes._is_acknowledged(answer(3, errno.EEXIST) + answer(4, 0), 4)
    assert refused.value.errno == errno.EEXIST
