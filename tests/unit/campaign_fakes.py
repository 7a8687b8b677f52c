"""Switches and environments that exist on paper only, for tests of planning."""

from __future__ import annotations

from switchmark.campaign.installed import Installed
from switchmark.model.capabilities import Capabilities
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.scenario import WRITTEN
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy

CROSS, LEARN, STATIC = ConnectMode.CROSS_CONNECT, ConnectMode.LEARNING, ConnectMode.STATIC_MAC
VETH, VHOST = PortKind.VETH, PortKind.VHOST_USER

SWITCHES = {
    "direct": Capabilities((VHOST, VETH), (CROSS,), polling=False, description="the wire"),
    "linux-bridge": Capabilities(
        (VETH,),
        (LEARN, STATIC, CROSS),
        polling=False,
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "L2 bridge of the kernel"),
        description="kernel",
    ),
    "ovs-netdev": Capabilities((VETH,), (LEARN, CROSS, STATIC), polling=False),
    "ovs-dpdk": Capabilities(
        (VHOST, VETH),
        (LEARN, CROSS, STATIC),
        polling=True,
        multi_core=True,
        runs_in=("host", "lxc"),
        takes_program=True,
    ),
    "basicfwd": Capabilities((VHOST,), (CROSS,), polling=True, multi_core=True, takes_program=True),
    "two-port": Capabilities((VETH,), (CROSS,), polling=False, max_ports=2),
    "no-wires": Capabilities((VETH,), (LEARN, STATIC), polling=False),
}
ENVIRONMENTS = {"netns": (VETH, VHOST), "lxc": (VETH, VHOST), "veth-only": (VETH,)}
INSTALLED = Installed(SWITCHES, ENVIRONMENTS, WRITTEN)
KNOWN = INSTALLED.known
