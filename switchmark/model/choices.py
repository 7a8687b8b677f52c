"""The words that describe a trial, and the bounds of its numbers."""

from __future__ import annotations

from enum import StrEnum

MIN_FRAME_BYTES = 64  # the smallest Ethernet frame, with FCS
MAX_FRAME_BYTES = 9018  # a jumbo frame of 9000 bytes of payload, with header and FCS
FCS_BYTES = 4
STANDARD_MTU_BYTES = 1500
ETHERNET_OVERHEAD_BYTES = 14 + FCS_BYTES  # beyond the MTU: header and FCS
# Payload of a UDP datagram: the engine's header, and an MTU of 1500 without IPv4 and UDP headers.
LEAST_DATAGRAM_BYTES, MOST_DATAGRAM_BYTES = 18, 1472
MAX_RATE_PPS = 10_000_000_000
MAX_BURST = 4096
MAX_PROBE_RATE_PPS = 1_000_000
MAX_PAIRS = 1024
MAX_CORES = 1024
MAX_VCPUS = 64
MAX_REPETITIONS = 10_000
MIN_TIME_S = 0.001
MAX_TIME_S = 604_800.0  # a week
PLAIN = "plain"  # one run; every other method makes many trials on one deployment (docs/methods.md)
OWN_ENGINE = "switchmark"  # that generates the traffic; others are foreign instruments
WIRE = "direct"  # no switch at all, so it has no connect mode that could be unfair
NEIGHBOURS = ("none", "cpu", "cache", "memory", "stream", "switch", "socket", "apache")  # or a path
CORES_PATTERN = r"^\d{1,4}(\+\d{1,4})*$"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"  # possible in a notation
VNF_PATTERN = r"^([a-z][a-z0-9-]*|/[A-Za-z0-9._+/-]+)$"  # a kind, or an absolute path

PROGRAM_PATTERN = r"^(/[A-Za-z0-9._+/-]+)?$"  # an absolute path that a notation can carry

# VNFs of a chain: the engine's forwarder by its fastest I/O, or gathering frames as DPDK's
# l2fwd does, a Linux bridge inside the VNF, the engine's forwarder as a program over libpcap
# would be (packet sockets, one system call a frame), or a program of the user's by its absolute
# path.
VNFS = ("forwarder", "l2fwd", "bridge", "pcap")


def rewrites(vnf: str) -> bool:
    """Return True if the VNF addresses each frame to the next station, as learning switches
    require."""
    return vnf in ("forwarder", "l2fwd", "pcap")


class Dimension(StrEnum):
    """The measured quantity (D)."""

    THROUGHPUT = "throughput"  # sender -> receiver, forwarded frames per second
    LATENCY = "latency"  # client <-> server, round-trip time


class Idle(StrEnum):
    """The action of a traffic application while its ring is full or empty. `auto`: placement
    decides."""

    AUTO = "auto"
    POLL = "poll"
    YIELD = "yield"
    SLEEP = "sleep"
    BATON = "baton"  # those on one core take turns
    BLOCK = "block"  # it sleeps in the kernel until a frame comes or is due
