"""Sockets of a network namespace, as the kernel lists them in /proc."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

LISTEN = "0A"  # state in /proc/net/tcp


def is_bound(protocol: str, port: int, pid: int | str = "self") -> bool:
    """Return True if a socket in the network namespace of a process is bound to a local port; for
    TCP, if it listens."""
    for table in (protocol, f"{protocol}6"):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                columns = line.split()
                listens = protocol != "tcp" or columns[3] == LISTEN
                if int(columns[1].rpartition(":")[2], 16) == port and listens:
                    return True
    return False
