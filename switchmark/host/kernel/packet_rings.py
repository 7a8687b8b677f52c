"""Counts frames that were dropped at full packet rings (PACKET_RX_RING) of another process.

Only the socket itself has this counter; /proc/net/packet and `ss` do not show it. So the process's
descriptors are duplicated for a moment, and the counter of each socket is read (packet(7),
PACKET_STATISTICS). A read resets the counter, so this module keeps the sums.
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
_STATISTICS = struct.Struct("=II")  # tp_packets, tp_drops; TPACKET_V3 has another field, not read


class PacketRings:
    """The drops at the packet sockets of a process.

    Only one reader of the same sockets may exist, since each read resets the counters."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._drops: dict[str, int] = {}

    def drops(self) -> dict[str, int]:
        """Return the frames dropped at the process's packet sockets since the start, by device.

        Raises OSError if the process has ended, or its descriptors may not be duplicated."""
        process = os.pidfd_open(self._pid)
        try:
            for descriptor in _sockets_of(self._pid):
                if (copy := _duplicate(process, descriptor)) is not None:
                    with closing(copy):
                        self._add(copy)
        finally:
            os.close(process)
        return dict(self._drops)

    def _add(self, copy: socket.socket) -> None:
        if copy.family != socket.AF_PACKET:
            return
        statistics = copy.getsockopt(SOL_PACKET, PACKET_STATISTICS, _STATISTICS.size)
        device = copy.getsockname()[0]
        self._drops[device] = self._drops.get(device, 0) + _STATISTICS.unpack(statistics)[1]


def _sockets_of(pid: int) -> list[int]:
    return [int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir() if _is_socket(path)]


def _is_socket(path: Path) -> bool:
    with suppress(FileNotFoundError):  # The process closed it meanwhile.
        return str(path.readlink()).startswith("socket:")
    return False


def _duplicate(process: int, descriptor: int) -> socket.socket | None:
    """Return a copy of the process's socket; None if the process closed it meanwhile."""
    number = libc().syscall(PIDFD_GETFD, process, descriptor, 0)
    if number >= 0:
        return socket.socket(fileno=number)
    check_result(number, "pidfd_getfd", accepted=(errno.EBADF,))
    return None
