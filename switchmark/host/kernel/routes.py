"""Adds, removes and counts the routes of a network namespace through netlink.

Routes go to the kernel in messages that are made before, many in one call, so that the time to load
a table is that of the kernel.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from switchmark.host.kernel import namespaces

if TYPE_CHECKING:
    import numpy as np

NETLINK_ROUTE = 0
RTM_GETROUTE, RTM_NEWROUTE, RTM_DELROUTE = 26, 24, 25
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
RTA_DST, RTA_OIF, RTA_GATEWAY = 1, 4, 5
RTPROT_BOOT = 3  # as `ip route` writes it
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_DUMP_INTR = 0x10
RT_TABLE_MAIN, RTN_UNICAST = 254, 1
SOL_NETLINK, NETLINK_GET_STRICT_CHK = 270, 12
HEADER = struct.Struct("=IHHII")
ROUTE = struct.Struct("=BBBBBBBBI")  # struct rtmsg
DUMP_BYTES = 1 << 18
MESSAGES_A_CALL = 1000  # they fit into the usual socket buffer


def route_messages(
    networks: np.ndarray,
    lengths: np.ndarray,
    gateways: np.ndarray,
    devices: np.ndarray,
    *,
    remove: bool = False,
) -> list[bytes]:
    """Return the messages that add, or remove, routes by gateways, in parts for one call each. All
    arguments have a row for each route: its network and its gateway as 4 or 16 bytes, its prefix
    length, and the number of its device."""
    import numpy as np

    count, width = networks.shape
    attribute = [("size", "=u2"), ("kind", "=u2"), ("data", "u1", (width,))]
    number = [("size", "=u2"), ("kind", "=u2"), ("data", "=u4")]
    head = [("size", "=u4"), ("kind", "=u2"), ("flags", "=u2"), ("sequence", "=u4"), ("pid", "=u4")]
    fields = ("family", "bits", "from_bits", "tos", "table", "protocol", "scope", "type")
    layout = np.dtype(
        [("head", head), *((name, "u1") for name in fields), ("more", "=u4"),
         ("network", attribute), ("gateway", attribute), ("device", number)]
    )  # fmt: skip
    rows = np.zeros(count, layout)
    rows["head"]["size"] = layout.itemsize
    rows["head"]["kind"] = RTM_DELROUTE if remove else RTM_NEWROUTE
    rows["head"]["flags"] = NLM_F_REQUEST | (0 if remove else NLM_F_CREATE | NLM_F_EXCL)
    rows["head"]["flags"][MESSAGES_A_CALL - 1 :: MESSAGES_A_CALL] |= NLM_F_ACK
    rows["head"]["flags"][-1:] |= NLM_F_ACK
    rows["head"]["sequence"] = np.arange(count)
    rows["family"] = socket.AF_INET if width == 4 else socket.AF_INET6
    rows["bits"] = lengths
    rows["table"], rows["protocol"], rows["type"] = RT_TABLE_MAIN, RTPROT_BOOT, RTN_UNICAST
    for name, kind, data in (
        ("network", RTA_DST, networks),
        ("gateway", RTA_GATEWAY, gateways),
        ("device", RTA_OIF, devices),
    ):
        rows[name]["size"] = layout[name].itemsize
        rows[name]["kind"] = kind
        rows[name]["data"] = data
    return [rows[at : at + MESSAGES_A_CALL].tobytes() for at in range(0, count, MESSAGES_A_CALL)]


def send_routes(netns: str, parts: Sequence[bytes]) -> None:
    """Send the messages of `route_messages`, and return when the kernel has obeyed all of them.

    Raises OSError with the number of the first route that the kernel refused."""
    if parts:
        namespaces.inside(netns, lambda: _send(parts))


def _send(parts: Sequence[bytes]) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as query:
        query.bind((0, 0))
        for part in parts:
            query.send(part)
            size = HEADER.unpack_from(part)[0]
            last = HEADER.unpack_from(part, len(part) - size)[3]
            while not _is_acknowledged(query.recv(DUMP_BYTES), last):
                pass


def _is_acknowledged(data: bytes, last: int) -> bool:
    """Return True if answers have the acknowledgement of the message with this number."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, _, sequence, _ = HEADER.unpack_from(data, at)
        if kind == NLMSG_ERROR:
            if error := -struct.unpack_from("=i", data, at + HEADER.size)[0]:
                raise OSError(error, f"route {sequence}: {os.strerror(error)}")
            if sequence == last:
                return True
        if length < HEADER.size:
            raise OSError("a netlink message is shorter than its header")
        at += length + 3 & ~3
    return False


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
