"""Frames that found no room in the packet rings (PACKET_RX_RING) of another process.

Only the socket itself has that counter: /proc/net/packet and `ss` show sockets with rings without
it. So the process's descriptors are duplicated for a moment, and their sockets asked (packet(7),
PACKET_STATISTICS). Asking resets the counter, which is why the sums are kept here.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import closing, suppress
from pathlib import Path

from switchmark.host.kernel.mounts import check_result, libc

PIDFD_GETFD = 438  # the same number on all architectures that this runs on
SOL_PACKET, PACKET_STATISTICS = 263, 6  # include/uapi/linux/if_packet.h
_STATISTICS = struct.Struct("=II")  # tp_packets, tp_drops; what TPACKET_V3 has behind is left


class PacketRings:
    """The drops at the packet sockets of one process. A second reader of the same sockets would
    take its share away."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._drops: dict[str, int] = {}

    def drops(self) -> dict[str, int]:
        """Device -> frames dropped at the process's packet sockets on it since this was made.

        Raises OSError where the process has ended, or may not be looked into."""
        process = os.pidfd_open(self._pid)
        try:
            for descriptor in _sockets_of(self._pid):
                if (one := _duplicate(process, descriptor)) is not None:
                    with closing(one):
                        self._add(one)
        finally:
            os.close(process)
        return dict(self._drops)

    def _add(self, one: socket.socket) -> None:
        if one.family != socket.AF_PACKET:
            return
        told = one.getsockopt(SOL_PACKET, PACKET_STATISTICS, _STATISTICS.size)
        device = one.getsockname()[0]
        self._drops[device] = self._drops.get(device, 0) + _STATISTICS.unpack(told)[1]


def _sockets_of(pid: int) -> list[int]:
    return [int(one.name) for one in Path(f"/proc/{pid}/fd").iterdir() if _is_socket(one)]


def _is_socket(path: Path) -> bool:
    with suppress(FileNotFoundError):  # it was closed meanwhile
        return str(path.readlink()).startswith("socket:")
    return False


def _duplicate(process: int, descriptor: int) -> socket.socket | None:
    """The process's socket; None when it was closed meanwhile."""
    number = libc().syscall(PIDFD_GETFD, process, descriptor, 0)
    if number >= 0:
        return socket.socket(fileno=number)
    check_result(number, "pidfd_getfd", accepted=(errno.EBADF,))
    return None
