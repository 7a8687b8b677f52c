"""I/O of traffic applications at their ports: the engine's backends and their names.

The names and rows are the engine's: `python -m switchmark.engine.io_table` writes them here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Io(StrEnum):
    """The I/O of a traffic application at its port. `auto` is the fastest for the port."""

    AUTO = "auto"
    AF_XDP = "af-xdp"
    DPDK = "dpdk"
    IO_URING = "io-uring"
    NETMAP = "netmap"
    PACKET_MMAP = "packet-mmap"
    RAW = "raw"
    RAW_MMSG = "raw-mmsg"
    UDP = "udp"
    UDP_MMSG = "udp-mmsg"


@dataclass(frozen=True, slots=True)
class IoRow:
    """One backend of the engine: its name, its ports and what it can do."""

    backend: str  # in `--port BACKEND:...`
    meaning: str
    arguments: str | None  # for a network device, named DEVICE; None: they depend on the port
    timed: str | None  # an addition if every frame is timed
    container: tuple[str, ...]  # Linux capabilities that it takes in a container
    datagrams: bool = False  # the kernel writes the headers of sent frames
    blocks: bool = False  # it can sleep in the kernel until a frame comes


IO_ROWS: dict[Io, IoRow] = {
    Io.AF_XDP: IoRow(
        "af_xdp",
        "AF_XDP sockets: past the kernel's network stack, of a kernel device",
        "dev=DEVICE",
        None,
        ("net_raw", "net_admin", "bpf", "ipc_lock"),
        blocks=True,
    ),
    Io.DPDK: IoRow(
        "dpdk",
        "DPDK: virtio-user on vhost-user, af_packet on a kernel device",
        None,
        None,
        ("sys_nice", "net_raw", "net_admin"),
    ),
    Io.IO_URING: IoRow(
        "io_uring",
        "a packet socket through io_uring",
        "dev=DEVICE",
        None,
        ("net_raw",),
        blocks=True,
    ),
    Io.NETMAP: IoRow(
        "netmap",
        "netmap: a VALE port, or a kernel device in netmap mode",
        None,
        None,
        ("net_raw",),
    ),
    Io.PACKET_MMAP: IoRow(
        "packet_mmap",
        "a packet socket with rings shared with the kernel",
        "dev=DEVICE",
        "ring=v2",
        ("net_raw",),
        blocks=True,
    ),
    Io.RAW: IoRow(
        "raw",
        "a packet socket, send and recv",
        "dev=DEVICE",
        None,
        ("net_raw",),
        blocks=True,
    ),
    Io.RAW_MMSG: IoRow(
        "raw",
        "a packet socket, sendmmsg and recvmmsg",
        "dev=DEVICE,mmsg",
        None,
        ("net_raw",),
        blocks=True,
    ),
    Io.UDP: IoRow(
        "udp",
        "a UDP socket, send and recv",
        "dev=DEVICE",
        None,
        (),
        datagrams=True,
        blocks=True,
    ),
    Io.UDP_MMSG: IoRow(
        "udp",
        "a UDP socket, sendmmsg and recvmmsg",
        "dev=DEVICE,mmsg",
        None,
        (),
        datagrams=True,
        blocks=True,
    ),
}


def sends_datagrams(io: Io) -> bool:
    """Return True if the kernel writes the headers of the frames it sends. False for `auto`."""
    return io is not Io.AUTO and IO_ROWS[io].datagrams
