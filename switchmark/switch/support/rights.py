"""The rights with which the program of a switch is started: the capabilities of its kinds of port
(`Capabilities.linux_capabilities`) and of the driver at the end of a cable, and what it may write
(`Capabilities.writes`)."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.model.ports import SwitchPort
from switchmark.model.rights import Rights
from switchmark.switch.support.base import Switch
from switchmark.switch.support.options import WithOptions

SOCKET = ("net_admin", "net_raw")  # a packet socket, and the modes of its device
MAPPED = (*SOCKET, "ipc_lock")  # and its rings, which are locked in memory
XDP = (*MAPPED, "sys_admin")  # and a program in the kernel
CABLES = {"": SOCKET, "af-packet": MAPPED, "af-xdp": XDP}  # by `cable_driver`, if there is a choice


def rights_of(switch: Switch, ports: Sequence[SwitchPort]) -> Rights | None:
    """The rights that these ports take. None, which is all of the bench's: for a NIC by its
    PCI address, whose driver is not known to need less, and for a switch that declares none."""
    declared = switch.capabilities.linux_capabilities
    if declared is None or any(port.pci for port in ports):
        return None
    needed = {name for port in ports for name in declared.get(port.kind, ())}
    if any(port.cable for port in ports):
        options = switch.options() if isinstance(switch, WithOptions) else {}
        needed.update(CABLES[options.get("cable_driver", "")])
    return Rights(tuple(sorted(needed)), switch.capabilities.writes)
