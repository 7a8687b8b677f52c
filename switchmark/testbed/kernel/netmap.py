"""netmap's control calls (netmap(4)): attaching a device to a VALE switch, and detaching it.

Numbers and layouts are those of net/netmap.h, API 14. No program and no library is needed.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from pathlib import Path

DEVICE = Path("/dev/netmap")
PARAMETERS = Path("/sys/module/netmap/parameters")
API = 14
NIOCCTRL = 0xC0586997  # _IOWR('i', 151, 88 bytes)
VALE_ATTACH, VALE_DETACH = 3, 4
ALL_RINGS = 1
REGISTER_MODE_AT, ATTACH_BYTES = 36, 64


def attach(port: str) -> None:
    """Attach a device, `vale0:eth0`, in the calling thread's network namespace. Raises OSError."""
    body = bytearray(ATTACH_BYTES)
    struct.pack_into("=I", body, REGISTER_MODE_AT, ALL_RINGS)
    _control(VALE_ATTACH, port, body)


def detach(port: str) -> None:
    """Detach a device from its VALE switch. Raises OSError."""
    _control(VALE_DETACH, port, bytearray(8))


def parameters(*names: str) -> dict[str, str]:
    """The module's parameters in force; those that it lacks are left out."""
    found = {}
    for name in names:
        try:
            found[name] = (PARAMETERS / name).read_text().strip()
        except OSError:
            continue
    return found


def _control(request: int, port: str, body: bytearray) -> None:
    held = ctypes.create_string_buffer(bytes(body), len(body))
    header = struct.pack("=HHI64sQQ", API, request, 0, port.encode(), 0, ctypes.addressof(held))
    fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, NIOCCTRL, header)
    finally:
        os.close(fd)
