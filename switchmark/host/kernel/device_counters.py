"""The kernel's counters of network devices and sockets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from switchmark.host.kernel.namespaces import inside


@dataclass(frozen=True, slots=True)
class EndCounters:
    """The counters of one end of a connection at one moment."""

    protocol: dict[str, int]
    rx_bytes: int
    rx_packets: int


def all_device_counters(netns: str | None) -> dict[str, list[int]]:
    """The 16 columns of /proc/net/dev (bytes, packets, errors, drops, ... each way) of every device
    in a namespace."""
    rows = (line.partition(":") for line in _lines(netns, "dev")[2:])
    return {name.strip(): [int(field) for field in fields.split()] for name, _, fields in rows}


def device_frames(netns: str | None, device: str) -> tuple[int, int]:
    """Frames (received, transmitted) that the kernel counted on a device."""
    fields = _device_counters(netns, device)
    return fields[0 + 1], fields[8 + 1]


def device_drops(netns: str | None, device: str) -> tuple[int, int]:
    """Frames (on receiving, on transmitting) that the kernel dropped at a device."""
    fields = _device_counters(netns, device)
    return fields[0 + 3], fields[8 + 3]


def udp_socket_drops(netns: str | None) -> int:
    """Datagrams that the kernel has dropped in a namespace because a socket's buffer was full."""
    names, values = (line.split() for line in _lines(netns, "snmp") if line.startswith("Udp:"))
    return int(dict(zip(names, values, strict=True)).get("RcvbufErrors", "0"))


def _device_counters(netns: str | None, device: str) -> list[int]:
    counters = all_device_counters(netns).get(device)
    if counters is None:
        raise OSError(f"network device {device} is not in namespace {netns or 'root'}")
    return counters


def _lines(netns: str | None, file: str) -> list[str]:
    return inside(netns, Path("/proc/thread-self/net", file).read_text).splitlines()


def protocol_counters(netns: str | None) -> dict[str, int]:
    """The counters of the protocols in a namespace, such as `Tcp.RetransSegs` and
    `TcpExt.ListenOverflows` (proc(5): snmp, netstat), and `TimeWait`, the TCP sockets that wait for
    late segments."""
    found: dict[str, int] = {}
    for file in ("snmp", "netstat"):
        lines = [line.split() for line in _lines(netns, file)]
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            protocol = names[0]
            pairs = zip(names[1:], values[1:], strict=True)
            found |= {f"{protocol.rstrip(':')}.{name}": int(value) for name, value in pairs}
    for line in _lines(netns, "sockstat"):
        fields = line.split()
        if fields[0] == "TCP:" and "tw" in fields:
            found["TimeWait"] = int(fields[fields.index("tw") + 1])
    return found


def end_counters(netns: str | None, device: str) -> EndCounters:
    """The counters of the protocols in a namespace, and of one of its devices. Raises OSError if
    the device is gone."""
    counted = _device_counters(netns, device)
    return EndCounters(protocol_counters(netns), counted[0], counted[1])
