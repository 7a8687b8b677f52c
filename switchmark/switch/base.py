"""What every switch under test must offer: the protocol, its capabilities, its ports.

A switch is one module in this folder: a class that fulfils `Switch`, and one line in
`registry.py`. The bench calls `probe`, then `start` with the ports of the trial, reads
`counters` around the measurement, and calls `stop`. Everything a switch makes on the
machine is written to the session's ledger first, so that a killed bench can be cleaned up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeGuard, runtime_checkable

from switchmark.testbed.host import Session


class PortKind(StrEnum):
    """Where a node meets the switch."""

    VETH = "veth"
    VHOST_USER = "vhost-user"
    TAP = "tap"
    MEMIF = "memif"
    MACVLAN = "macvlan"  # a device on top of another, which delivers by its address
    VF = "vf"  # a virtual function of a NIC: the NIC's embedded switch is what is tested
    VALE = "vale"  # a port of a VALE switch, opened by the application itself (netmap)


class CableEnd(StrEnum):
    """As what the end of a cable to another host is there for a switch."""

    INTERFACE = "interface"  # a network device of the host's
    PCI = "pci"  # a NIC that is apart from the kernel, for DPDK, named by its PCI address


# Ports of these kinds exist only as part of their switch, which makes them before the nodes.
MADE_BY_SWITCH = frozenset({PortKind.MACVLAN, PortKind.VF, PortKind.VALE})


class ConnectMode(StrEnum):
    """How the switch decides where a frame goes; the same meaning for every switch."""

    CROSS_CONNECT = "cross-connect"  # port 2k <-> port 2k+1, whatever the frame says
    LEARNING = "learning"  # IEEE 802.1D learning bridge
    STATIC_MAC = "static-mac"  # forwarding by a MAC table written before the trial
    # IEEE 802.1Q virtual Ethernet bridge: by the addresses of its own ports; broadcast goes to
    # all of them, what is addressed to none leaves by the uplink
    VEB = "veb"


@dataclass(frozen=True, slots=True)
class SwitchOption:
    """A setting that a campaign may choose: one of some words, a whole number in a range, or
    text of a form."""

    name: str
    meaning: str
    default: str
    choices: tuple[str, ...] = ()
    range: tuple[int, int] | None = None
    form: str = ""  # a regular expression; so far of a probability only
    modes: tuple[ConnectMode, ...] = ()  # where it can be other than the default; none: everywhere

    @property
    def allowed(self) -> str:
        """What may be written, for messages and tables."""
        if self.form:
            return "a probability, 0 to 1"
        return ", ".join(self.choices) if self.range is None else "{} to {}".format(*self.range)

    def takes(self, value: str) -> bool:
        """Whether the value is one of those."""
        if self.form:
            return re.fullmatch(self.form, value) is not None
        if self.range is None:
            return value in self.choices
        low, high = self.range
        return value.isascii() and value.isdigit() and low <= int(value) <= high


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a switch can do; placement and planning read this, the machine is not touched."""

    port_kinds: tuple[PortKind, ...]  # in order of preference
    connect_modes: tuple[ConnectMode, ...]  # the first is the switch's own natural mode
    polling: bool  # it busy-polls, so it wants a core of its own
    in_kernel: bool = False  # no process: it works in the senders' softirq (a bare wire, too)
    multi_core: bool = False
    main_thread: bool = False  # one that does not forward, and can be put on a core of its own
    max_ports: int | None = None
    needs_hugepages: bool = False
    known_truth: bool = False  # for trying methods on; no contender, never listed or ranked
    splits: bool = False  # can deal the frames of one port out to several (`Split`)
    runs_in: tuple[str, ...] = ("host",)  # what `switch_environment` may be
    reconfigures: bool = False  # ports and rules can be changed while it runs (`changes.py`)
    settled: str = ""  # why they cannot, where that is known
    # As what the end of a cable to another host can be a port; none: `uncabled` says why.
    cable_ends: tuple[CableEnd, ...] = (CableEnd.INTERFACE,)
    uncabled: str = ""
    description: str = ""
    options: tuple[SwitchOption, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """Can this machine run the switch? Either a version, or a reason with a remedy."""

    available: bool
    version: str | None = None
    reason: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """What comes in at port 0 is dealt out to chains of VNFs beside each other; what comes out of
    them leaves by the last port. In between, port 2k joins 2k + 1 as everywhere."""

    by: str  # src-mac or flow
    chains: int
    vnfs: int  # of each chain
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
        """The port by which all leave."""
        return 2 * self.vnfs * self.chains + 1


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """One port of the trial as the switch sees it.

    `index` counts from 0; ports 2k and 2k+1 are the two ends of pair k.
    For veth, `device` is the name of the end that lies in the root namespace and is already
    up; a switch may take it into a namespace of its own while it runs, and hands it back
    (down) on stop. `far_device` in the namespace `far_netns` is the application's end, for a
    switch that must set something there. For vhost-user, `socket` is the path where the
    application listens as vhost-user *front end in server mode* (virtio-user `server=1`); the
    switch connects to it as client, and must cope with the socket appearing later. `mtu_bytes`
    is the longest payload of a frame, without Ethernet header and FCS.
    """

    index: int
    kind: PortKind
    mac: str  # of the application behind this port
    device: str | None = None
    socket: str | None = None
    mtu_bytes: int = 1500
    far_device: str | None = None
    far_netns: str | None = None
    cable: bool = False  # the host's own interface: behind it another host's switch, or a tester
    pci: str | None = None  # of such a one that DPDK drives itself


@dataclass(frozen=True, slots=True)
class MadePort:
    """A port that a switch has made for a node: a device, which lies in the bench's namespace
    and is moved into the node; or a PCI function for DPDK; or what netmap applications open."""

    device: str | None = None
    pci: str | None = None
    netmap: str | None = None


@dataclass(frozen=True, slots=True)
class PortCounters:
    """What the switch itself counted on one port, from the switch's point of view."""

    rx_frames: int
    tx_frames: int
    rx_dropped: int = 0
    tx_dropped: int = 0


@dataclass(frozen=True, slots=True)
class SwitchCounters:
    """Counters of all ports, by port index; `witness_rx_frames` counts what came out of the
    third port that the switch was given to detect flooding (None: mode cannot flood)."""

    ports: dict[int, PortCounters] = field(default_factory=dict)
    witness_rx_frames: int | None = None


@runtime_checkable
class MakesPorts(Protocol):
    """A switch with port kinds of `MADE_BY_SWITCH`: its ports come first, then the nodes."""

    def make_ports(self, session: Session, wanted: Sequence[SwitchPort]) -> list[MadePort]:
        """Make a port for each of `wanted`, which have their index, kind, address and MTU.
        Called before `start`, which gets the same ports in their nodes; undone by `stop`."""
        ...


@runtime_checkable
class ProbesModes(Protocol):
    """A switch that needs more for some connect modes than for others."""

    def probe_mode(self, mode: ConnectMode) -> Probe:
        """Say whether this machine can run it in this mode, which it has in principle."""
        ...


@runtime_checkable
class Splits(Protocol):
    """A switch that can deal frames out to several chains (`Capabilities.splits`)."""

    split: Split | None  # set before `start`; None: every port has one peer


@runtime_checkable
class HasMainThread(Protocol):
    """A switch with a main thread beside those that forward (`Capabilities.main_thread`)."""

    main_core: int | None  # set before `start`; None: its own choice


def splits(switch: Switch) -> TypeGuard[Splits]:
    """Whether it can deal frames out."""
    return _has(type(switch), Splits, switch)


def has_main_thread(switch: Switch) -> TypeGuard[HasMainThread]:
    """Whether it has a main thread beside those that forward."""
    return _has(type(switch), HasMainThread, switch)


_ABILITIES: dict[tuple[type, type], bool] = {}


def _has(kind: type, ability: Any, switch: Switch) -> bool:
    """`isinstance` looks at every member anew each time; campaigns have many trials and few
    classes of switches, so each class is looked at once."""
    if (kind, ability) not in _ABILITIES:
        _ABILITIES[kind, ability] = isinstance(switch, ability)
    return _ABILITIES[kind, ability]


def probe_for(switch: Switch, mode: ConnectMode) -> Probe:
    """Whether this machine can run the switch in this mode."""
    return switch.probe_mode(mode) if isinstance(switch, ProbesModes) else switch.probe()


class Switch(Protocol):
    """A virtual switch under test. A context manager in effect: `stop` is always called."""

    name: str
    capabilities: Capabilities

    def probe(self) -> Probe:
        """Say whether this machine can run it. Must not change the machine."""
        ...

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start a private instance with these ports on these cores and return when it
        forwards or is ready to as soon as the ports' peers appear (polled, with a deadline).

        Raises `UnavailableError` or `TrialFailed` with the switch's own last words."""
        ...

    def wait_ports_up(self, timeout_s: float) -> None:
        """Return when every port has its peer and passes frames; raise `TrialFailed` else."""
        ...

    def settle(self) -> None:
        """Called once every application has been heard: return when what the switch has
        learnt from that is in force for every frame to come."""
        ...

    def counters(self) -> SwitchCounters:
        """Frames per port since start; to be read while the applications are still there.

        Raises `TrialFailed` where they have gone and took the counters with them."""
        ...

    def alive(self) -> str | None:
        """None while the switch runs; otherwise a line that says how it died (with log tail)."""
        ...

    def process_ids(self) -> Sequence[int]:
        """Processes whose CPU time is the switch's own (empty for in-kernel switches)."""
        ...

    def details(self) -> dict[str, str]:
        """Version and every setting worth recording."""
        ...

    def stop(self) -> None:
        """Undo everything `start` did. Idempotent."""
        ...
