"""Whether the applications can use a switch's ports: sockets take DPDK in the traffic engine."""

from __future__ import annotations

from switchmark.engine.binary import WITHOUT_DPDK, find_engine, has_dpdk
from switchmark.errors import UnavailableError
from switchmark.model.capabilities import Availability, Capabilities, unavailable
from switchmark.model.ports import PortKind
from switchmark.switch.support.tools import asked_once

_SOCKETS = {PortKind.VHOST_USER, PortKind.MEMIF}


def without_dpdk(can: Capabilities) -> Availability | None:
    """Unavailable, with the remedy, if all ports are sockets and the engine is built without DPDK;
    None otherwise. Whether there is an engine, others check."""
    if not _SOCKETS.issuperset(can.port_kinds):
        return None
    try:
        engine = find_engine()
    except UnavailableError:
        return None
    if asked_once(lambda program: "yes" if has_dpdk(program) else "no", engine) != "no":
        return None
    return unavailable(f"{engine} is built without DPDK", remedy=WITHOUT_DPDK)
