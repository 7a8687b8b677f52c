"""Counts the routes of a network namespace through netlink, as the kernel dumps them."""

from __future__ import annotations

import socket
import struct

from switchmark.host.kernel import namespaces

NETLINK_ROUTE = 0
RTM_GETROUTE, RTM_NEWROUTE = 26, 24
NLM_F_REQUEST, NLM_F_DUMP = 1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_DUMP_INTR = 0x10
RT_TABLE_MAIN, RTN_UNICAST = 254, 1
SOL_NETLINK, NETLINK_GET_STRICT_CHK = 270, 12
HEADER = struct.Struct("=IHHII")
ROUTE = struct.Struct("=BBBBBBBBI")  # struct rtmsg
DUMP_BYTES = 1 << 18


def count_routes(netns: str, ip_version: int) -> int:
    """Return the number of unicast routes of the main table. Raises OSError."""
    family = socket.AF_INET if ip_version == 4 else socket.AF_INET6
    return namespaces.inside(netns, lambda: _count(family))


def _count(family: int) -> int:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as query:
        query.setsockopt(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)
        query.bind((0, 0))
        request = ROUTE.pack(family, 0, 0, 0, RT_TABLE_MAIN, 0, 0, RTN_UNICAST, 0)
        length = HEADER.size + len(request)
        flags = NLM_F_REQUEST | NLM_F_DUMP
        query.send(HEADER.pack(length, RTM_GETROUTE, flags, 1, 0) + request)
        total = 0
        while True:
            count, done = _messages(query.recv(DUMP_BYTES))
            total += count
            if done:
                return total


def _messages(data: bytes) -> tuple[int, bool]:
    """Return the number of routes in a part of a dump, and True for its last part."""
    at = count = 0
    while at + HEADER.size <= len(data):
        length, kind, flags, _, _ = HEADER.unpack_from(data, at)
        if flags & NLM_F_DUMP_INTR:
            raise OSError("the routes changed while they were read")
        if kind == NLMSG_DONE:
            return count, True
        if kind == NLMSG_ERROR:
            number = -struct.unpack_from("=i", data, at + HEADER.size)[0]
            raise OSError(number, "the kernel does not list its routes")
        if kind == RTM_NEWROUTE:
            row = ROUTE.unpack_from(data, at + HEADER.size)
            count += row[4] == RT_TABLE_MAIN and row[7] == RTN_UNICAST
        if length < HEADER.size:
            raise OSError("a netlink message is shorter than its header")
        at += length + 3 & ~3
    return count, False
