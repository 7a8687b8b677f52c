"""Instruments that are DPDK applications: their memory, and their ports."""

from __future__ import annotations

from switchmark.instrument.support.base import Job, Station
from switchmark.model.capabilities import Availability, unavailable
from switchmark.model.ports import PortKind
from switchmark.testbed.hugepages import DEFAULT_SIZE_KB, NR_HUGEPAGES, free_mb, pools


def no_hugepages(needs_mb: int = 1) -> Availability | None:
    """Unavailable, where so many MiB of hugepages are not free; None where they are."""
    if (free := free_mb()) >= needs_mb:
        return None
    reserved = sum(pool.total for pool in pools() if pool.size_kb == DEFAULT_SIZE_KB)
    more = -(-(needs_mb - free) * 1024 // DEFAULT_SIZE_KB)
    return unavailable(
        f"needs {needs_mb} MiB of hugepages, {free} MiB are free",
        remedy=f"echo {reserved + more} > {NR_HUGEPAGES}",
    )


def port_device(job: Job, station: Station) -> str:
    """The virtual device (`--vdev`) that drives an end's port."""
    port = station.port
    if port.kind is PortKind.VETH:
        return f"net_af_packet0,iface={port.device_inside}"
    if port.back_end:
        return f"net_vhost0,iface={port.socket_inside},client=1"
    ring = f"queue_size={job.trial.ring}"
    return f"net_virtio_user0,path={port.socket_inside},server=1,mac={port.mac},{ring}"
