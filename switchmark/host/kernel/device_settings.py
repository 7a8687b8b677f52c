"""Settings of a network device in this namespace, by ioctl and /proc: up, IPv6, offloads."""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

SIOCETHTOOL, SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8946, 0x8913, 0x8914
IFF_UP, IFF_PROMISC = 1, 0x100
ETHTOOL_GDRVINFO, ETHTOOL_DRVINFO_BYTES = 0x3, 196

# These offloads are switched off at both ends of every veth pair. With offloaded transmit checksums
# frames cross a veth with a partial checksum, which a receiver of raw frames rejects. With
# segmentation or receive offload, one frame at one end would be counted as several at the other.
OFFLOADS_OFF = {
    "tx-checksumming": 0x17,
    "tcp-segmentation-offload": 0x1F,
    "generic-segmentation-offload": 0x24,
    "generic-receive-offload": 0x2C,
}

# Offloads that a TCP connection uses, with the ethtool requests that read and set each.
OFFLOADS = {
    "tx-checksumming": (0x16, 0x17),
    "rx-checksumming": (0x14, 0x15),
    "scatter-gather": (0x18, 0x19),
    "tcp-segmentation-offload": (0x1E, 0x1F),
    "generic-segmentation-offload": (0x23, 0x24),
    "generic-receive-offload": (0x2B, 0x2C),
}
# Those that a new veth has, in the order in which they depend on each other. Receive offload is off
# there by default, and a veth without it does not poll.
USUAL_OFFLOADS = (
    *("scatter-gather", "tx-checksumming", "tcp-segmentation-offload"),
    "generic-segmentation-offload",
)


class RequestRefused(OSError):
    """The kernel or a device refused the request.

    Another OSError means that the request was not sent, since there is no socket for it (too many
    open files, no permission)."""


def is_promiscuous(device: str) -> bool:
    """Return True if a device receives every frame; False if there is no such device.

    Raises OSError if the request cannot be sent."""
    try:
        return bool(_flags(device) & IFF_PROMISC)
    except RequestRefused:
        return False


def set_up(device: str, *, without: int = 0) -> None:
    """Set a device up, and clear the flags `without`.

    An ioctl is used, because to open a netlink socket takes longer than the whole request."""
    flags = (_flags(device) | IFF_UP) & ~without
    _ioctl(SIOCSIFFLAGS, struct.pack("16sH14x", device.encode(), flags))


def _flags(device: str) -> int:
    """Return the flags of a device (netdevice(7)). Raises OSError."""
    reply = _ioctl(SIOCGIFFLAGS, struct.pack("16sH14x", device.encode(), 0))
    return int(struct.unpack("16sH14x", reply)[1])


def disable_ipv6(device: str) -> None:
    """Switch IPv6 off, so that no router solicitations and multicast reports are counted.

    If /proc/sys is read-only, as in a container, the device gets no IPv6 address instead, and then
    joins no group whose membership is reported. Raises OSError."""
    setting = Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6")
    try:
        setting.write_text("1\n")
    except FileNotFoundError:  # a kernel without IPv6
        return
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        if setting.read_text().strip() == "1":
            return
        command = ["ip", "link", "set", "dev", device, "addrgenmode", "none"]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            raise


def disable_offloads(device: str) -> None:
    """Switch `OFFLOADS_OFF` off; an offload that the kernel or device lacks is already off.

    Raises OSError if the request cannot be sent."""
    for command in OFFLOADS_OFF.values():
        with suppress(RequestRefused):
            set_by_ethtool(device, command, 0)


def enable_offloads(device: str) -> None:
    """Switch `USUAL_OFFLOADS` on; an offload that the device lacks stays off.

    Raises OSError if the request cannot be sent."""
    for name in USUAL_OFFLOADS:
        with suppress(RequestRefused):
            set_by_ethtool(device, OFFLOADS[name][1], 1)


def driver_of(device: str) -> str | None:
    """Return the name of the driver of a device; None if the device does not report it.

    Raises OSError if the request cannot be sent."""
    try:
        reply = _ethtool(device, struct.pack(f"I{ETHTOOL_DRVINFO_BYTES - 4}x", ETHTOOL_GDRVINFO))
    except RequestRefused:
        return None
    return reply[4:36].split(b"\0")[0].decode(errors="replace") or None


def offloads_of(device: str) -> dict[str, bool]:
    """Return the offloads of a device, without those that it does not report.

    Raises OSError if a request cannot be sent."""
    states = {}
    for name, (read, _) in OFFLOADS.items():
        with suppress(RequestRefused):
            reply = _ethtool(device, struct.pack("II", read, 0))
            states[name] = bool(struct.unpack("II", reply)[1])
    return states


def set_by_ethtool(device: str, command: int, value: int) -> None:
    """Set one ethtool setting. Raises OSError."""
    _ethtool(device, struct.pack("II", command, value))


def _ethtool(device: str, request: bytes) -> bytes:
    """Send a request; return it with the fields that the kernel filled in. Raises OSError."""
    buffer = array.array("B", request)
    _ioctl(SIOCETHTOOL, struct.pack("16sP", device.encode(), buffer.buffer_info()[0]))
    return buffer.tobytes()


def _ioctl(number: int, request: bytes) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            return fcntl.ioctl(any_socket, number, request)
        except OSError as error:
            raise RequestRefused(error.errno, error.strerror) from None
