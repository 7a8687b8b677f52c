"""Nodes: the place of one traffic application or VNF, with its ports and its cores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from switchmark.model.nics import Nic
from switchmark.model.ports import MadePort, PortKind


@dataclass(frozen=True, slots=True)
class NodePort:
    """A port of a node. The caller fills in the upper part; the environment fills in the lower part
    and returns the port in `node.spec.ports`. For veth, that is the name of the device inside the
    node (`eth0`) and of the switch's end (None without a switch); for vhost-user and memif, the
    path of the socket on the *host* and inside the node."""

    kind: PortKind
    mac: str
    ip: str  # with prefix length, e.g. 10.77.0.1/24; empty for a VNF
    mtu_bytes: int = 1500  # for veth devices: at least the frame size (with FCS) minus 18

    # The address of the veth device if the application has a different address (raw sockets). The
    # kernel's IP stack would also process a frame to the address of the device, which costs the
    # receiver more than the frame itself and causes an ICMP answer.
    device_mac: str | None = None
    peer_mac: str = ""  # the next hop of frames from this port
    peer_ip: str = ""
    udp_port: int | None = None  # the application's port; None: the usual port
    peer_udp_port: int | None = None
    tcp_port: int | None = None  # on which its server listens; None: the usual port
    peer_tcp_port: int | None = None

    switch_netns: str | None = None  # the namespace of the switch's end of a veth; None: the host's

    device_inside: str | None = None
    device_switch_side: str | None = None
    socket_host: Path | None = None
    socket_inside: str | None = None
    made_port: MadePort | None = None  # the port that the switch made before the node
    lent: str | None = None  # the end of a cable that is the port: device or PCI address
    nic: Nic | None = None  # real ports in place of virtual ports
    # The memory of a DPDK program with this port is on the kernel's ordinary pages, not hugepages.
    small_pages: bool = False
    back_end: bool = False  # without a switch, this end connects to the socket of the other end


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The description of a node: a short name that is unique in the session, its ports, its
    cores."""

    name: str  # at most 7 characters (6 with several ports), since names of devices end with it
    ports: tuple[NodePort, ...]
    cores: tuple[int, ...]
    linux_capabilities: tuple[str, ...] = ()  # needed by its application in a container
    vcpus: int | None = None  # for a virtual machine; None: one for each core

    @property
    def port(self) -> NodePort:
        """The node's first port."""
        return self.ports[0]
