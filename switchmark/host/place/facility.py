"""The facilities of the operating system that a place may or may not allow."""

from __future__ import annotations

from enum import StrEnum


class Facility(StrEnum):
    """A facility of the operating system that a part of the bench needs; `place.can` tries each."""

    USER_NAMESPACE = "user-namespace"
    """Make a user namespace, and in it a network namespace with devices."""
    NETWORK_NAMESPACE = "network-namespace"
    """Make a named network namespace, with devices and mounts."""
    NETWORK_DEVICE = "network-device"
    """Make and remove devices in the network namespace of the process itself."""
    PACKET_SOCKET = "packet-socket"
    """Open a packet socket (AF_PACKET)."""
    BPF = "bpf"
    """Load a BPF program of type XDP."""
    XDP_SOCKET = "xdp-socket"
    """Open an AF_XDP socket, and load the BPF program that it needs."""
    HUGEPAGES = "hugepages"
    """Map a hugepage of the default size by memfd, and write to it."""
    MEMORY_POLICY = "memory-policy"
    """Read and set the NUMA policy of memory, as DPDK does with hugepages."""
    IO_URING = "io-uring"
    """Make an io_uring instance."""
    PERF = "perf"
    """Open a performance counter of the process itself."""
    CONTROL_GROUPS = "control-groups"
    """Make a control group below the root of a hierarchy."""
    REAL_TIME = "real-time"
    """Run a thread with real-time priority (SCHED_FIFO)."""
    TUN = "tun"
    """Open /dev/net/tun, which tap devices need."""
    KERNEL_SETTINGS = "kernel-settings"
    """Write to /proc/sys and /sys."""
    FORCED_BUFFERS = "forced-buffers"
    """Make socket buffers larger than the limit in /proc/sys/net/core (SO_RCVBUFFORCE)."""
    PHYSICAL_ADDRESSES = "physical-addresses"
    """Read the physical addresses of the process's own memory, as Snabb does."""
