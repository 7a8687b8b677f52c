"""Whose a local connection is, as the kernel tells; a server need not believe its client."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from pathlib import Path

_ESTABLISHED = "01"
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9  # fields of a row of /proc/net/tcp
_WORD = 4  # addresses are printed as words of the machine

Place = tuple[str, int]


def holder_uid(client: Place, server: Place) -> int | None:
    """The user whose program holds the client's end of this connection on this machine; None where
    nobody holds it (any more): the kernel says 0 of what has been closed, which root's is, too."""
    try:
        return next(
            int(row[_UID])
            for row in _rows(client, server)
            if row[_STATE] == _ESTABLISHED and row[_INODE] != "0"
        )
    except (StopIteration, OSError):
        return None


def _rows(client: Place, server: Place) -> Iterator[list[str]]:
    # IPv4 through a socket of both families stands among those of IPv6.
    for name, mapped in (("tcp", False), ("tcp6", True)):
        wanted = [_printed(client, mapped), _printed(server, mapped)]
        path = Path("/proc/thread-self/net", name)
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            row = line.split()
            if [row[_LOCAL], row[_REMOTE]] == wanted:
                yield row


def _printed(place: Place, mapped: bool) -> str:
    """A place as the kernel prints it."""
    address = ipaddress.ip_address(place[0])
    if mapped and address.version == 4:
        address = ipaddress.IPv6Address(f"::ffff:{address}")
    packed = address.packed
    words = (packed[at : at + _WORD] for at in range(0, len(packed), _WORD))
    hexes = (f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    return f"{''.join(hexes)}:{place[1]:04X}"
