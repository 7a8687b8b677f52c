"""Checks that the applications can use a switch's ports, because sockets need DPDK in the
engine."""

from __future__ import annotations

from switchmark.engine.binary import WITHOUT_DPDK, find_engine, has_dpdk
from switchmark.errors import UnavailableError
from switchmark.model.capabilities import Availability, Capabilities, unavailable
from switchmark.model.ports import SOCKET_KINDS
from switchmark.switch.support.tools import query_once


def without_dpdk(capabilities: Capabilities) -> Availability | None:
    """Return the problem, with its remedy, if all ports are sockets and the engine is built without
    DPDK; None otherwise, and also without an engine."""
    if not set(SOCKET_KINDS).issuperset(capabilities.port_kinds):
        return None
    try:
        engine = find_engine()
    except UnavailableError:
        return None
    if query_once(lambda program: "yes" if has_dpdk(program) else "no", engine) != "no":
        return None
    return unavailable(f"{engine} is built without DPDK", remedy=WITHOUT_DPDK)
