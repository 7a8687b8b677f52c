"""netmap's control calls (netmap(4)): attaching devices to a VALE switch, opening ports for others.

Numbers and layouts are those of net/netmap.h, API 14. No program and no library is needed.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path

from switchmark.model.capabilities import Availability, unavailable

DEVICE = Path("/dev/netmap")
PARAMETERS = Path("/sys/module/netmap/parameters")
HOLDERS = Path("/sys/module/netmap/holders")
API = 14
NIOCCTRL = 0xC0586997  # _IOWR('i', 151, 88 bytes)
REGISTER, VALE_ATTACH, VALE_DETACH = 1, 3, 4
ALL_RINGS = 1
NO_TX_POLL = 0x20000  # polling sends nothing: who has the port says when
REGISTER_MODE_AT, REGISTER_FLAGS_AT, REGISTER_BYTES, ATTACH_BYTES = 36, 48, 56, 64
GENERIC_ONLY = "2"  # admode: whatever the driver has, netmap's emulation


def not_loaded() -> Availability | None:
    """Unavailable, where netmap's module is not loaded; None where it is."""
    if DEVICE.exists():
        return None
    return unavailable(
        f"no {DEVICE}: netmap.ko is not loaded",
        remedy="build netmap (github.com/luigirizzo/netmap) for this kernel and load it",
    )


def attach(port: str) -> None:
    """Attach a device, `vale0:eth0`, in the calling thread's network namespace. Raises OSError."""
    body = bytearray(ATTACH_BYTES)
    struct.pack_into("=I", body, REGISTER_MODE_AT, ALL_RINGS)
    _control(VALE_ATTACH, port, body)


def detach(port: str) -> None:
    """Detach a device from its VALE switch. Raises OSError."""
    _control(VALE_DETACH, port, bytearray(8))


def open_port(port: str) -> tuple[int, bytes]:
    """Open a port, `vale0:1`, in the calling thread's network namespace, for whoever will read and
    send: its descriptor, and the kernel's account of it (`struct nmreq_register`). Raises
    OSError."""
    body = bytearray(REGISTER_BYTES)
    struct.pack_into("=I", body, REGISTER_MODE_AT, ALL_RINGS)
    struct.pack_into("=Q", body, REGISTER_FLAGS_AT, NO_TX_POLL)
    fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        return fd, _ask(fd, REGISTER, port, body)
    except OSError:
        os.close(fd)
        raise


def is_native(driver: str) -> bool:
    """Whether a driver speaks netmap itself, so that its devices are attached as they are; netmap
    emulates it on the others. A driver that does holds the module."""
    holder = HOLDERS / driver.replace("-", "_")
    return holder.exists() and parameters("admode").get("admode") != GENERIC_ONLY


def parameters(*names: str) -> dict[str, str]:
    """The module's parameters in force; those that it lacks are left out."""
    found = {}
    for name in names:
        with suppress(OSError):
            found[name] = (PARAMETERS / name).read_text().strip()
    return found


def _control(request: int, port: str, body: bytearray) -> None:
    fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        _ask(fd, request, port, body)
    finally:
        os.close(fd)


def _ask(fd: int, request: int, port: str, body: bytearray) -> bytes:
    held = ctypes.create_string_buffer(bytes(body), len(body))
    header = struct.pack("=HHI64sQQ", API, request, 0, port.encode(), 0, ctypes.addressof(held))
    fcntl.ioctl(fd, NIOCCTRL, header)
    return held.raw
