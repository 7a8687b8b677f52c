"""Nodes: where one traffic application or VNF lives, with its ports and its cores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from switchmark.model.nics import Nic
from switchmark.model.ports import MadePort, PortKind


@dataclass(frozen=True, slots=True)
class NodePort:
    """A port of a node. The caller fills in the upper part; the environment fills in the lower part
    and returns the whole in `node.spec.ports`. For veth that is the name of the device inside the
    node (`eth0`) and of the switch's end (None on a wire); for vhost-user and memif it is the path
    of the socket as the *host* and as the node see it."""

    kind: PortKind
    mac: str
    ip: str  # with prefix length, e.g. 10.77.0.1/24; empty: none (a VNF's)
    mtu_bytes: int = 1500  # for veth devices: at least the frame size (with FCS) less 18

    # Of the veth device itself, where the application brings its own address (raw sockets):
    # a frame that is addressed to the device would also be processed by the kernel's IP stack,
    # which costs the receiver more than the frame itself and answers with ICMP.
    device_mac: str | None = None
    peer_mac: str = ""  # where frames that are sent here go next
    peer_ip: str = ""
    udp_port: int | None = None  # of the application; None: the usual one
    peer_udp_port: int | None = None
    tcp_port: int | None = None  # at which a server of it listens; None: the usual one
    peer_tcp_port: int | None = None

    switch_netns: str | None = None  # where the switch's end of a veth is to be; None: the host's

    device_inside: str | None = None
    device_switch_side: str | None = None
    socket_host: Path | None = None
    socket_inside: str | None = None
    made: MadePort | None = None  # the port that the switch made before the node
    lent: str | None = None  # the end of a cable, in place of its own port: device or PCI
    nic: Nic | None = None  # real ports in place of virtual ports
    # Memory of a DPDK program that has the port: on the kernel's ordinary pages, not in hugepages.
    small_pages: bool = False
    back_end: bool = False  # on a socket without a switch: this end connects, the other listens


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to make: a short name that is unique in the session, its ports, its cores."""

    name: str  # at most 7 characters (6 with several ports): it ends the names of devices
    ports: tuple[NodePort, ...]
    cores: tuple[int, ...]
    linux_capabilities: tuple[str, ...] = ()  # needed by its application in a container
    vcpus: int | None = None  # for a virtual machine; None: one for each core

    @property
    def port(self) -> NodePort:
        """The node's first port."""
        return self.ports[0]
