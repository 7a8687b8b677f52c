"""Settings of a network device of this namespace, by ioctl and /proc: up, IPv6, offloads."""

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

# Offloads switched off on every veth end, on both sides. With transmit checksums offloaded,
# frames cross a veth with half a checksum, which no receiver of raw frames could accept; and
# with segmentation or receive offload, one frame counted here would be several counted there.
OFFLOADS_OFF = {
    "tx-checksumming": 0x17,
    "tcp-segmentation-offload": 0x1F,
    "generic-segmentation-offload": 0x24,
    "generic-receive-offload": 0x2C,
}


class RequestRefused(OSError):
    """What the kernel or a device answers to a request; another OSError: it was not asked, since
    there is no socket to ask by (too many open files, no permission)."""


def is_promiscuous(device: str) -> bool:
    """Whether a device of this namespace takes every frame; False where there is no device. Raises
    OSError where the kernel cannot be asked."""
    try:
        return bool(_flags(device) & IFF_PROMISC)
    except RequestRefused:
        return False


def set_up(device: str, *, without: int = 0) -> None:
    """Set a device up, and these flags off, by ioctl: opening a netlink socket takes longer than
    all the rest."""
    flags = (_flags(device) | IFF_UP) & ~without
    _ioctl(SIOCSIFFLAGS, struct.pack("16sH14x", device.encode(), flags))


def _flags(device: str) -> int:
    """The flags of a device, as `netdevice(7)` names them. Raises OSError."""
    told = _ioctl(SIOCGIFFLAGS, struct.pack("16sH14x", device.encode(), 0))
    return int(struct.unpack("16sH14x", told)[1])


def disable_ipv6(device: str) -> None:
    """Switch IPv6 off: no router solicitations and no multicast reports among the frames that are
    counted. Where /proc/sys cannot be written, as in a container, the device gets no IPv6 address
    and joins no group whose membership is reported. Raises OSError."""
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
    """Switch `OFFLOADS_OFF` off; an offload that the kernel or device lacks is off already. Raises
    OSError where the kernel cannot be asked."""
    for command in OFFLOADS_OFF.values():
        with suppress(RequestRefused):
            set_by_ethtool(device, command, 0)


def driver_of(device: str) -> str | None:
    """The name of the driver of a device of this namespace; None where it does not tell. Raises
    OSError where the kernel cannot be asked."""
    try:
        told = _ethtool(device, struct.pack(f"I{ETHTOOL_DRVINFO_BYTES - 4}x", ETHTOOL_GDRVINFO))
    except RequestRefused:
        return None
    return told[4:36].split(b"\0")[0].decode(errors="replace") or None


def set_by_ethtool(device: str, command: int, value: int) -> None:
    """Give one ethtool setting a value. Raises OSError."""
    _ethtool(device, struct.pack("II", command, value))


def _ethtool(device: str, request: bytes) -> bytes:
    """The request as the kernel has filled it in. Raises OSError."""
    held = array.array("B", request)
    _ioctl(SIOCETHTOOL, struct.pack("16sP", device.encode(), held.buffer_info()[0]))
    return held.tobytes()


def _ioctl(number: int, request: bytes) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            return fcntl.ioctl(any_socket, number, request)
        except OSError as error:
            raise RequestRefused(error.errno, error.strerror) from None
