"""Ports: where a node meets the switch, how the switch joins them, and what it counts there."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class PortKind(StrEnum):
    """The kind of port where a node meets the switch."""

    VETH = "veth"
    VHOST_USER = "vhost-user"
    TAP = "tap"
    MEMIF = "memif"
    MACVLAN = "macvlan"  # a device on top of another, which delivers by its address
    VF = "vf"  # a virtual function of a NIC: the NIC's embedded switch is what is tested
    VALE = "vale"  # a port of a VALE switch, opened by the application itself (netmap)
    ATTACHMENT = "attachment"  # a device with an address, which a container network has made


SOCKET_KINDS = (PortKind.VHOST_USER, PortKind.MEMIF)


class CableEnd(StrEnum):
    """The kind of port that a switch has at the end of a cable to another host."""

    INTERFACE = "interface"  # a network device of the host's
    PCI = "pci"  # a NIC that is apart from the kernel, for DPDK, named by its PCI address


# Ports of these kinds exist only as part of their switch, which makes them before the nodes.
MADE_BY_SWITCH = frozenset({PortKind.MACVLAN, PortKind.VF, PortKind.VALE, PortKind.ATTACHMENT})


class ConnectMode(StrEnum):
    """The way in which the switch chooses the output port, with one meaning for all switches."""

    CROSS_CONNECT = "cross-connect"  # port 2k <-> port 2k+1, whatever the frame says
    LEARNING = "learning"  # IEEE 802.1D learning bridge
    STATIC_MAC = "static-mac"  # forwarding by a MAC table written before the trial
    # IEEE 802.1Q virtual Ethernet bridge: by the addresses of its ports; broadcast goes to
    # all of them, what is addressed to none leaves by the uplink
    VEB = "veb"
    # By the longest matching prefix of the destination address; only with `function: route`.
    ROUTE = "route"
    # As the tool of a container network has set it up: by MAC addresses, by routes, with NAT
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Split:
    """One stream over several chains: the frames that enter at port 0 are dealt out to parallel
    chains of VNFs, and what leaves the chains leaves by the last port. In between, port 2k joins 2k
    + 1 as everywhere."""

    by: str  # src-mac or flow
    chains: int
    vnfs: int  # in each chain
    source_macs: tuple[str, ...]  # chain by chain, where those decide

    @property
    def heads(self) -> tuple[int, ...]:
        """The first port of each chain."""
        return tuple(1 + 2 * self.vnfs * chain for chain in range(self.chains))

    @property
    def tails(self) -> tuple[int, ...]:
        """The last port of each chain."""
        return tuple(2 * self.vnfs * (chain + 1) for chain in range(self.chains))

    @property
    def last(self) -> int:
        """The port by which all frames leave."""
        return 2 * self.vnfs * self.chains + 1


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """One port of the trial as the switch sees it.

    `index` counts from 0; ports 2k and 2k+1 are the two ends of pair k.
    For veth, `device` is the name of the end that lies in the root namespace and is already
    up; a switch may take it into its own namespace while it runs, and hands it back
    (down) on stop. `far_device` in the namespace `far_netns` is the application's end, for a
    switch that must set something there. For vhost-user, `socket` is the path where the
    application listens as vhost-user *front end in server mode* (virtio-user `server=1`); the
    switch connects to it as client, and must cope with the socket appearing later. `mtu_bytes`
    is the longest payload of a frame, without Ethernet header and FCS.
    """

    index: int
    kind: PortKind
    mac: str  # address of the application behind this port
    device: str | None = None
    socket: str | None = None
    mtu_bytes: int = 1500
    far_device: str | None = None
    far_netns: str | None = None
    cable: bool = False  # the host's own interface: behind it another host's switch, or a tester
    pci: str | None = None  # PCI address of such an interface, if DPDK drives it
    to_guest: bool = False  # the node is a virtual machine, which takes a PCI function whole


@dataclass(frozen=True, slots=True)
class MacvlanParent:
    """The device that macvlan devices are made on, and its namespace."""

    device: str
    netns: str


@dataclass(frozen=True, slots=True)
class NetworkEnd:
    """An end of a container network: a namespace with a device that has an address there."""

    netns: str
    device: str
    mac: str
    ip: str  # with prefix length
    gateway: str = ""
    reached_at: str = ""  # the address at which others reach it; empty: its own
    is_host: bool = False  # its namespace is that of the host itself
    port: int | None = None  # UDP port for its application; None: the usual one
    reached_port: int | None = None  # at which others reach that port
    tcp_port: int | None = None  # TCP port for a server; None: the usual one
    reached_tcp_port: int | None = None  # at which others reach that port


@dataclass(frozen=True, slots=True)
class MadePort:
    """A port that a switch has made for a node: a device in the bench's namespace, which is moved
    into the node; a parent, on which the node gets a macvlan device; a PCI function for DPDK; the
    name that netmap applications open; or an end of a container network, whose namespace is the
    node's."""

    device: str | None = None
    macvlan_on: MacvlanParent | None = None
    pci: str | None = None
    netmap: str | None = None
    end: NetworkEnd | None = None


@dataclass(frozen=True, slots=True)
class PortCounters:
    """The counters of one port, from the switch's point of view: `rx` is what entered the
    switch."""

    rx_frames: int
    tx_frames: int
    rx_dropped: int = 0
    tx_dropped: int = 0

    def since(self, before: PortCounters) -> PortCounters:
        """Return the counts since an earlier reading."""
        return PortCounters(
            self.rx_frames - before.rx_frames,
            self.tx_frames - before.tx_frames,
            self.rx_dropped - before.rx_dropped,
            self.tx_dropped - before.tx_dropped,
        )


@dataclass(frozen=True, slots=True)
class SwitchCounters:
    """Counters of all ports, by port index. `witness_rx_frames` counts the frames that left by the
    third port, which shows flooding (None: this mode cannot flood)."""

    ports: dict[int, PortCounters] = field(default_factory=dict)
    witness_rx_frames: int | None = None
