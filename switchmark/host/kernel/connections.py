"""Looks up the owner (user ID) of a local TCP connection in the kernel.

A server need not trust what its client sends about itself.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from pathlib import Path

_ESTABLISHED = "01"
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9  # fields of a row of /proc/net/tcp
_WORD = 4  # bytes; the kernel prints addresses as words in the byte order of the machine

Endpoint = tuple[str, int]


def owner_uid(client: Endpoint, server: Endpoint) -> int | None:
    """Return the user ID of the program that has the client's end of this connection.

    None if no program has it. The kernel reports user ID 0, which is root's, for a connection that
    was closed; such rows are excluded by their state and inode."""
    try:
        return next(
            int(row[_UID])
            for row in _rows(client, server)
            if row[_STATE] == _ESTABLISHED and row[_INODE] != "0"
        )
    except (StopIteration, OSError):
        return None


def _rows(client: Endpoint, server: Endpoint) -> Iterator[list[str]]:
    # IPv4 connections of a socket for both families are listed with those of IPv6.
    for name, mapped in (("tcp", False), ("tcp6", True)):
        ends = [_kernel_format(client, mapped), _kernel_format(server, mapped)]
        path = Path("/proc/thread-self/net", name)
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            row = line.split()
            if [row[_LOCAL], row[_REMOTE]] == ends:
                yield row


def _kernel_format(endpoint: Endpoint, mapped: bool) -> str:
    """Return an address and port in the format of /proc/net/tcp."""
    address = ipaddress.ip_address(endpoint[0])
    if mapped and address.version == 4:
        address = ipaddress.IPv6Address(f"::ffff:{address}")
    packed = address.packed
    parts = (packed[at : at + _WORD] for at in range(0, len(packed), _WORD))
    hexes = (f"{int.from_bytes(word, sys.byteorder):08X}" for word in parts)
    return f"{''.join(hexes)}:{endpoint[1]:04X}"
