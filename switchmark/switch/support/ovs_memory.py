"""The hugepage memory of OVS-DPDK, and its division into pools of buffers.

OVS first requests one shared pool of 262,144 buffers and, if memory is short, half of that and half
again. Each failed attempt takes all memory for some milliseconds. A vhost-user peer that connects
in that moment is lost for good, since its memory table or rings cannot be allocated ("failed to
allocate memory for dev->mem" in the daemon's log, about once in fifteen starts). Therefore the
memory is sufficient for the first attempt: a pool for each port (`per-port-memory`) if that is the
smaller sum, otherwise one shared pool of full size.
"""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.switch.support.pages import on_small_pages

# The numbers are those of netdev-dpdk of Open vSwitch 3.1 with one queue for each direction. The
# bytes of a buffer are those of `ovs-appctl netdev-dpdk/get-mempool-info` (total_obj_size).
PORT_BUFFERS = 20_512
SHARED_BUFFERS = 262_144
BUFFER_ROUNDING_BYTES = 1024
HEADROOM_BYTES = 128
FRAMING_BYTES = 18  # header and FCS
BOOKKEEPING_BYTES = 832  # for each buffer: mempool header, mbuf, packet metadata
BASE_MB = 64  # rings of the ports, vhost bookkeeping, memory of EAL


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The daemon's memory on each NUMA node, in MiB, and whether each port has its own pool."""

    memory_mb: int
    per_port: bool


def plan_pools(ports: int, mtu_bytes: int, *, small_pages: bool = False) -> PoolPlan:
    """Return the smaller of the two plans for the buffers of `ports` ports with this MTU."""
    size = buffer_bytes(mtu_bytes)
    size = on_small_pages(size) if small_pages else size
    per_port, shared = (_mb(count * size) for count in (ports * PORT_BUFFERS, SHARED_BUFFERS))
    return PoolPlan(BASE_MB + min(per_port, shared), per_port <= shared)


def buffer_bytes(mtu_bytes: int) -> int:
    """Return the bytes of one buffer in a pool for frames of this MTU."""
    data = -(-(mtu_bytes + FRAMING_BYTES) // BUFFER_ROUNDING_BYTES) * BUFFER_ROUNDING_BYTES
    return data + HEADROOM_BYTES + BOOKKEEPING_BYTES


def _mb(size_bytes: int) -> int:
    return -(-size_bytes >> 20)
