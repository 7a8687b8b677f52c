"""Settings of a network device of this namespace, by ioctl and /proc: up, IPv6, offloads."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from contextlib import suppress
from pathlib import Path

SIOCETHTOOL, SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8946, 0x8913, 0x8914
IFF_UP, IFF_PROMISC = 1, 0x100
ETHTOOL_GDRVINFO, ETHTOOL_DRVINFO_BYTES = 0x3, 196

# Offloads switched off on every veth end, on both sides. With transmit checksums offloaded,
# frames cross a veth with half a checksum, which no receiver of raw frames could accept; and
# with segmentation or receive offload, one frame counted here would be several counted there.
OFFLOADS_OFF = {
    "tx-checksumming": 0x17,
    "tcp-segmentation-offload": 0x1F,
    "generic-segmentation-offload": 0x24,
    "generic-receive-offload": 0x2C,
}


def is_promiscuous(device: str) -> bool:
    """Whether a device of this namespace takes every frame; False where there is no device."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        try:
            return bool(read_flags(any_socket, device) & IFF_PROMISC)
        except OSError:
            return False


def set_up(device: str, *, without: int = 0) -> None:
    """Set a device up, and these flags off, by ioctl: opening a netlink socket takes longer than
    all the rest."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        flags = (read_flags(any_socket, device) | IFF_UP) & ~without
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", device.encode(), flags))


def read_flags(any_socket: socket.socket, device: str) -> int:
    """The flags of a device, as `netdevice(7)` names them. Raises OSError."""
    asked = struct.pack("16sH14x", device.encode(), 0)
    return int(struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked))[1])


def disable_ipv6(device: str) -> None:
    """Switch IPv6 off: no router solicitations and no multicast reports among the frames that are
    counted."""
    with suppress(FileNotFoundError):  # a kernel without IPv6
        Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("1\n")


def disable_offloads(device: str) -> None:
    """Switch `OFFLOADS_OFF` off; an offload that the kernel or device lacks is off already."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        for command in OFFLOADS_OFF.values():
            with suppress(OSError):
                set_by_ethtool(any_socket, device, command, 0)


def driver_of(device: str) -> str | None:
    """The name of the driver of a device of this namespace; None where it does not tell."""
    info = bytearray(ETHTOOL_DRVINFO_BYTES)
    struct.pack_into("I", info, 0, ETHTOOL_GDRVINFO)
    held = array.array("B", info)
    request = struct.pack("16sP", device.encode(), held.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        try:
            fcntl.ioctl(any_socket, SIOCETHTOOL, request)
        except OSError:
            return None
    return held.tobytes()[4:36].split(b"\0")[0].decode(errors="replace") or None


def set_by_ethtool(any_socket: socket.socket, device: str, command: int, value: int) -> None:
    """Give one ethtool setting a value. Raises OSError."""
    held = array.array("B", struct.pack("II", command, value))
    request = struct.pack("16sP", device.encode(), held.buffer_info()[0])
    fcntl.ioctl(any_socket, SIOCETHTOOL, request)
