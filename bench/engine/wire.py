"""A wire for kernel devices: two network namespaces joined by a veth pair, and the frames that
arrived at its receiving end, by the device's own counter. Needs root."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from programs import Reading

MAC_A, MAC_B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
IP_A, IP_B = "198.18.0.1", "198.18.0.2"
DEVICE_A, DEVICE_B = "bench-a", "bench-b"
CLONE_NEWNET = 0x40000000
SIOCGIFHWADDR = 0x8927


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Move this thread, and programs that it starts, into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    original = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(other, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        yield
    finally:
        libc.setns(original, CLONE_NEWNET)
        os.close(original)
        os.close(other)


class Wire:
    """Two namespaces joined by a veth pair, made anew for every run, as some programs leave an XDP
    program on their device."""

    def __init__(self) -> None:
        self.a, self.b = (f"smbk{os.getpid()}{end}" for end in "ab")

    def __enter__(self) -> Wire:
        for name in (self.a, self.b):
            _ip("netns", "add", name)
        _ip("link", "add", DEVICE_A, "netns", self.a, "type", "veth",
            "peer", "name", DEVICE_B, "netns", self.b)  # fmt: skip
        for name, device, address in ((self.a, DEVICE_A, IP_A), (self.b, DEVICE_B, IP_B)):
            _ip("netns", "exec", name, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
            _ip("-n", name, "link", "set", device, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in (self.a, self.b):
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=10)

    def arrived(self) -> Reading:
        """Return the frames that the device at the receiving end has received."""
        with inside(self.b):
            lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        now = time.monotonic()
        fields = next(line for line in lines if line.strip().startswith(DEVICE_B))
        return Reading(now, int(fields.partition(":")[2].split()[1]))

    def far_mac(self) -> str:
        """Return the address of the device at the receiving end."""
        with inside(self.b):
            return _mac(DEVICE_B)


def _mac(device: str) -> str:
    """Return the address of a device in the namespace of this thread."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16s240x", device.encode())
        answer = fcntl.ioctl(any_socket, SIOCGIFHWADDR, request)
    return answer[18:24].hex(":")


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, timeout=10)
