"""Every switch the bench knows, by name. A new switch is one module and one line here."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.errors import UsageError
from switchmark.switch.af_packet import AfPacket
from switchmark.switch.base import Switch
from switchmark.switch.basicfwd import BasicForwarder
from switchmark.switch.bess import Bess
from switchmark.switch.direct import Direct
from switchmark.switch.fastclick import FastClick
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.macvlan import Macvlan
from switchmark.switch.ovs_afxdp import OvsAfxdp
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.ovs_kernel import OvsKernel
from switchmark.switch.ovs_netdev import OvsNetdev
from switchmark.switch.reference import Reference
from switchmark.switch.snabb import Snabb
from switchmark.switch.sriov import Sriov
from switchmark.switch.t4p4s import T4p4s
from switchmark.switch.tc_redirect import TcRedirect
from switchmark.switch.testpmd import Testpmd
from switchmark.switch.vale import Vale
from switchmark.switch.vpp import Vpp
from switchmark.switch.xdp_redirect import XdpRedirect

SWITCHES: dict[str, Callable[[], Switch]] = {
    "direct": Direct,
    "linux-bridge": LinuxBridge,
    "tc-redirect": TcRedirect,
    "xdp-redirect": XdpRedirect,
    "macvlan": Macvlan,
    "ovs": OvsKernel,
    "ovs-netdev": OvsNetdev,
    "ovs-afxdp": OvsAfxdp,
    "ovs-dpdk": OvsDpdk,
    "af-packet": AfPacket,
    "basicfwd": BasicForwarder,
    "testpmd": Testpmd,
    "reference": Reference,
    "snabb": Snabb,
    "vpp": Vpp,
    "fastclick": FastClick,
    "bess": Bess,
    "t4p4s": T4p4s,
    "vale": Vale,
    "sriov": Sriov,
}


def make_switch(name: str) -> Switch:
    """A switch by its name; raises `UsageError` that lists the known ones."""
    if name not in SWITCHES:
        raise UsageError(f"switch {name}: not known; known switches: {', '.join(SWITCHES)}")
    return SWITCHES[name]()
