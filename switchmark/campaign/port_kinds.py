"""Which kinds of ports switch, environment and traffic I/O have in common."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.instrument.registry import INSTRUMENTS
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import OWN_ENGINE
from switchmark.model.io import Io
from switchmark.model.ports import PortKind

# Those that are network devices of the kernel's.
DEVICES = frozenset({PortKind.VETH, PortKind.TAP, PortKind.MACVLAN, PortKind.VF})


def usable_ports(
    capabilities: Capabilities,
    environment_ports: Sequence[PortKind] | None,
    io: Io = Io.AUTO,
    port_kind: PortKind | None = None,
    generator: str = OWN_ENGINE,
) -> list[PortKind]:
    """The port kinds that switch, environment and traffic I/O all have, best first.

    Sockets (udp, raw) and netmap need a kernel device; DPDK reaches every kind but a VALE port,
    which is netmap's own. A foreign instrument has port kinds of its own."""
    return [
        kind
        for kind in capabilities.port_kinds
        if port_kind in {None, kind}
        and (environment_ports is None or kind in environment_ports)
        and _reaches(io, kind)
        and (generator == OWN_ENGINE or kind in INSTRUMENTS[generator]().abilities.ports)
    ]


def _reaches(io: Io, kind: PortKind) -> bool:
    if io is Io.AUTO:
        return True
    if kind is PortKind.VALE:
        return io is Io.NETMAP
    return io is Io.DPDK or kind in DEVICES
