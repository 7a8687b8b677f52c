"""Instruments that are DPDK applications: their memory, and their ports."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol, TypeVar

from switchmark.instrument.support.base import Job, Station
from switchmark.instrument.support.program import ProgramEnd
from switchmark.model.ports import PortKind


def eal_memory(station: Station, memory_mb: int) -> list[str]:
    """Return EAL's options for so many MiB, in hugepages or on small pages."""
    amount = ["-m", str(memory_mb)]
    if station.port.small_pages:
        return ["--no-huge", "--no-shconf", *amount]
    return ["--in-memory", "--single-file-segments", *amount]


def port_device(job: Job, station: Station) -> str:
    """The virtual device (`--vdev`) that drives an end's port."""
    port = station.port
    if port.kind is PortKind.VETH:
        return f"net_af_packet0,iface={port.device_inside}"
    if port.back_end:
        return f"net_vhost0,iface={port.socket_inside},client=1"
    ring = f"queue_size={job.trial.ring}"
    return f"net_virtio_user0,path={port.socket_inside},server=1,mac={port.mac},{ring}"


class _FanoutEnd(Protocol):
    """A program that has been started, with the group that its packet socket will join."""

    program: ProgramEnd
    fanout_group: int | None


_S = TypeVar("_S", bound=_FanoutEnd)


def fanout_group(pid: int, station: Station) -> int | None:
    """The number of the fanout group that the packet socket of a process joins: net_af_packet makes
    it of the process and the interface. None where this process does not see the interface."""
    if station.port.kind is not PortKind.VETH:
        return None
    try:
        return (pid ^ socket.if_nametoindex(station.port.device_inside or "")) & 0xFFFF
    except OSError:
        return None


def start_in_another_group(other: _FanoutEnd, start: Callable[[], _S]) -> _S:
    """Start a program beside another one, once more where both would join a group of one number:
    the kernel refuses a second interface in a group. The first is ended before it has opened its
    socket; the next is another process, and so joins another group."""
    started = start()
    if started.fanout_group == other.fanout_group is not None:
        started.program.close()
        started = start()
    return started
