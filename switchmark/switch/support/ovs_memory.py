"""How much hugepage memory OVS-DPDK gets, and how it divides it into pools of buffers.

OVS first requests one shared pool of 262,144 buffers and, where memory is short, half of that and
half again. Each attempt that fails takes all the memory there is for some milliseconds, and a
vhost-user peer that connects in that moment is lost for good: its memory table or rings cannot be
allocated (seen as "failed to allocate memory for dev->mem" in the daemon's log, about once in
fifteen starts). So memory is given such that the first attempt always succeeds: a pool for each
port (`per-port-memory`) while that is the smaller sum, else one shared pool of full size.
"""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.switch.support.pages import on_small_pages

# As netdev-dpdk of Open vSwitch 3.1 computes them for one queue a direction; the bytes of a
# buffer as `ovs-appctl netdev-dpdk/get-mempool-info` tells (total_obj_size).
PORT_BUFFERS = 20_512
SHARED_BUFFERS = 262_144
BUFFER_ROUNDING_BYTES = 1024
HEADROOM_BYTES = 128
FRAMING_BYTES = 18  # header and FCS
BOOKKEEPING_BYTES = 832  # a buffer's own: mempool header, mbuf, packet metadata
BASE_MB = 64  # rings of the ports, vhost bookkeeping, what the EAL itself takes


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The daemon's memory on each NUMA node, in MiB, and whether each port has its own pool."""

    memory_mb: int
    per_port: bool


def plan_pools(ports: int, mtu_bytes: int, *, small_pages: bool = False) -> PoolPlan:
    """The smaller of the two ways to hold the buffers of `ports` ports of that MTU."""
    size = buffer_bytes(mtu_bytes)
    size = on_small_pages(size) if small_pages else size
    own, shared = (_mb(count * size) for count in (ports * PORT_BUFFERS, SHARED_BUFFERS))
    return PoolPlan(BASE_MB + min(own, shared), own <= shared)


def buffer_bytes(mtu_bytes: int) -> int:
    """The bytes that one buffer takes of a pool for frames of that MTU."""
    data = -(-(mtu_bytes + FRAMING_BYTES) // BUFFER_ROUNDING_BYTES) * BUFFER_ROUNDING_BYTES
    return data + HEADROOM_BYTES + BOOKKEEPING_BYTES


def _mb(size_bytes: int) -> int:
    return -(-size_bytes >> 20)
