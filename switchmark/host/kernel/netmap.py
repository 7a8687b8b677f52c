"""netmap's control calls (netmap(4)): attach devices to a VALE switch, and open ports for programs.

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
NO_TX_POLL = 0x20000  # poll() sends nothing; the program with the port sends by ioctl
REGISTER_MODE_AT, REGISTER_FLAGS_AT, REGISTER_BYTES, ATTACH_BYTES = 36, 48, 56, 64
GENERIC_ONLY = "2"  # value of admode: netmap's emulation for every driver


def not_loaded() -> Availability | None:
    """Return the reason and remedy if netmap's module is not loaded, otherwise None."""
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
    """Open a port, for example `vale0:1`, in the calling thread's network namespace.

    Returns its descriptor and the kernel's description of it (`struct nmreq_register`), for the
    program that will use the port. Raises OSError."""
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
    """Return True if a driver supports netmap natively; netmap emulates it on other drivers.

    A driver with native support is listed as a holder of the module."""
    holder = HOLDERS / driver.replace("-", "_")
    return holder.exists() and parameters("admode").get("admode") != GENERIC_ONLY


def parameters(*names: str) -> dict[str, str]:
    """Return the values of these parameters of the module; missing parameters are left out."""
    values = {}
    for name in names:
        with suppress(OSError):
            values[name] = (PARAMETERS / name).read_text().strip()
    return values


def _control(request: int, port: str, body: bytearray) -> None:
    fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        _ask(fd, request, port, body)
    finally:
        os.close(fd)


def _ask(fd: int, request: int, port: str, body: bytearray) -> bytes:
    buffer = ctypes.create_string_buffer(bytes(body), len(body))
    header = struct.pack("=HHI64sQQ", API, request, 0, port.encode(), 0, ctypes.addressof(buffer))
    fcntl.ioctl(fd, NIOCCTRL, header)
    return buffer.raw
