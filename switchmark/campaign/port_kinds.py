"""The port kinds that switch, environment and traffic I/O have in common."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.instrument.registry import abilities_for
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import OWN_ENGINE
from switchmark.model.io import Io, sends_datagrams
from switchmark.model.ports import PortKind
from switchmark.model.trial import Trial
from switchmark.model.workload import FRAMES

# The port kinds that are network devices of the kernel.
DEVICES = frozenset({PortKind.VETH, PortKind.TAP, PortKind.MACVLAN, PortKind.VF})


def usable_ports(
    capabilities: Capabilities,
    environment_ports: Sequence[PortKind] | None,
    io: Io = Io.AUTO,
    port_kind: PortKind | None = None,
    generator: str = OWN_ENGINE,
    workload: str = FRAMES,
) -> list[PortKind]:
    """Return the port kinds that switch, environment and traffic I/O all support, best first.

    Sockets (udp, raw) and netmap need a kernel device. DPDK reaches every kind except a VALE port,
    which only netmap reaches. A foreign generator has its own port kinds."""
    more = capabilities.application_ports if workload != FRAMES else ()
    return [
        kind
        for kind in (*capabilities.port_kinds, *more)
        if port_kind in {None, kind}
        and (environment_ports is None or kind in environment_ports)
        and _reaches(io, kind)
        and _driven_by(generator, workload, kind)
    ]


def why_not(
    kind: PortKind,
    environment: str,
    environment_ports: Sequence[PortKind],
    trial: Trial,
) -> str:
    """Return why a trial cannot have this port kind, the first of the switch, for the message about
    its fallback."""
    if trial.nics:
        return "beside real ports (nics) nodes have network devices"
    if kind not in environment_ports:
        return f"{environment} has no {kind} ports"
    if not _reaches(trial.io, kind):
        return f"io {trial.io} has no way to {kind} ports"
    if not _driven_by(trial.generator, trial.workload, kind):
        return f"generator {trial.generator} has no way to {kind} ports"
    return "port_kind asks for it"


def _driven_by(generator: str, workload: str, kind: PortKind) -> bool:
    if generator == OWN_ENGINE and workload == FRAMES:
        return True
    abilities = abilities_for(generator, workload)
    return abilities is not None and kind in abilities.ports


def _reaches(io: Io, kind: PortKind) -> bool:
    if io is Io.AUTO:
        return True
    if kind is PortKind.ATTACHMENT:  # frames that bypass the IP stack would take another path
        return sends_datagrams(io)
    if kind is PortKind.VALE:
        return io is Io.NETMAP
    return io is Io.DPDK or kind in DEVICES
