"""What every switch under test must offer: the protocol, its capabilities, its ports.

A switch is one file of `switchmark/switch/`, which holds a class that fulfils `Switch` and has the
file's name (`ovs_dpdk.py` is `ovs-dpdk`); nothing else names it. The bench asks for its
`availability`, calls `start` with the ports of the trial, reads `counters` around the measurement,
and calls `stop`. A switch writes everything that it makes on the machine to the session's ledger
first, so that a killed bench can be cleaned up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeGuard, cast, runtime_checkable

from switchmark.errors import Refusal, TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.host.host import Session
from switchmark.host.network.counted import KnownNetwork
from switchmark.model.attaching import Attacher
from switchmark.model.capabilities import Availability, Capabilities
from switchmark.model.functions import FunctionEntries
from switchmark.model.ports import ConnectMode, MadePort, Split, SwitchCounters, SwitchPort
from switchmark.switch.support.applications import without_dpdk


@runtime_checkable
class MakesPorts(Protocol):
    """A switch with port kinds of `MADE_BY_SWITCH`: its ports come first, then the nodes."""

    def make_ports(self, session: Session, wanted: Sequence[SwitchPort]) -> list[MadePort]:
        """Make a port for each of `wanted`, which have their index, kind, address and MTU.
        Called before `start`, which gets the same ports in their nodes; undone by `stop`. The end
        of a cable may be among them, for its number: it is there already, and is not made."""
        ...


@runtime_checkable
class DiffersByMode(Protocol):
    """A switch that needs more for some connect modes than for others."""

    def mode_availability(self, mode: ConnectMode) -> Availability:
        """Say whether this machine can run it in this mode, one of its capabilities."""
        ...


@runtime_checkable
class Splits(Protocol):
    """A switch that can deal frames out to several chains (`Capabilities.splits`)."""

    split: Split | None  # set before `start`; None: every port has one peer


@runtime_checkable
class PerformsFunctions(Protocol):
    """A switch with network functions (`Capabilities.functions`)."""

    function_table: FunctionTable | None  # set before `start`; None: it only forwards

    def function_entries(self) -> FunctionEntries:
        """Count the native entries of the tables that `start` has loaded, in the switch itself.
        Called after `start`, before and after the traffic. Raises `TrialFailed`."""
        ...


@runtime_checkable
class RefusesTables(Protocol):
    """A switch that cannot express every neutral table."""

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """Return why it cannot express a table with the options that it has; None if it can.
        Changes nothing, so that a campaign can be refused when it is read."""
        ...


class HasMainThread(Protocol):
    """A switch with a main thread beside those that forward (`Capabilities.main_thread`)."""

    main_core: int | None  # set before `start`; None: its own choice


@runtime_checkable
class ANic(Protocol):
    """A switch that is a NIC (`Capabilities.is_nic`)."""

    nic: str | None  # its network device, set before anything is asked; None: the one configured


def plug_in(switch: Switch, device: str) -> None:
    """Plug a cable into a switch that is a NIC: it is the one of this device. Nothing happens to
    others, which get the device as a port."""
    if switch.capabilities.is_nic and isinstance(switch, ANic):
        switch.nic = device


def splits(switch: Switch) -> TypeGuard[Splits]:
    """Whether the switch can deal frames out to several chains."""
    return switch.capabilities.splits


def has_main_thread(switch: Switch) -> TypeGuard[HasMainThread]:
    """Whether the switch has a main thread beside those that forward."""
    return switch.capabilities.main_thread


def availability_for(switch: Switch, mode: ConnectMode) -> Availability:
    """Whether this machine can run the switch in this mode, and applications on its ports."""
    if isinstance(switch, DiffersByMode):
        found = switch.mode_availability(mode)
    else:
        found = switch.availability()
    return (without_dpdk(switch.capabilities) if found.available else None) or found


@runtime_checkable
class TakesHugepages(Protocol):
    """A switch that says before its start how much memory its processes will take, in hugepages or
    on small pages."""

    def hugepages_mb(self, ports: Sequence[SwitchPort], mode: ConnectMode) -> list[int]:
        """Return the memory of each of its processes in MiB."""
        ...


@runtime_checkable
class HasSocketBuffers(Protocol):
    """A switch whose sockets have buffers past the machine's limits if the kernel permits."""

    unforced_buffers: bool  # set before `start`; True: within the limits


@runtime_checkable
class HasPages(Protocol):
    """A switch whose memory can lie on the kernel's ordinary pages (`Capabilities.page_sizes`)."""

    small_pages: bool  # set before `start`; False: in hugepages


def attacher_of(switch: Switch) -> Attacher:
    """Return the switch as a network to which namespaces can be attached. Raises TrialFailed."""
    if not switch.capabilities.attaches:
        raise TrialFailed(f"{switch.name}: nothing can be attached to it")
    return cast("Attacher", switch)


@runtime_checkable
class Discardable(Protocol):
    """A switch that takes its devices where they are made, and can be ended together with them."""

    def discard(self) -> None:
        """Stop for good, without handing back devices of ours. Idempotent."""
        ...


@runtime_checkable
class HasNetwork(Protocol):
    """A switch that is a network with devices of its own, whose counters prove a crossing."""

    def network(self) -> KnownNetwork:
        """The network as it is now; called after `start`, when paths have been verified."""
        ...


@runtime_checkable
class WatchesNetwork(Protocol):
    """A switch that is a network of others, whose round-trip time is watched during the load."""

    def begin_watch(self) -> None:
        """Begin, before the load."""
        ...

    def check_watch(self) -> None:
        """Raise `TrialFailed` if the load has slowed the network down."""
        ...


@runtime_checkable
class Logging(Protocol):
    """A switch whose output is kept while it runs."""

    def output(self) -> str:
        """The end of its output, line by line, as it was written (64 KiB at most)."""
        ...


class StartedSwitch(Protocol):
    """What is asked of a switch that has been started, here or on another host."""

    def wait_ports_up(self, timeout_s: float) -> None:
        """Return when every port has its peer and passes frames. Raises `TrialFailed`."""
        ...

    def wait_converged(self) -> None:
        """Return when what the switch has learnt is in force for every frame to come. Called once
        every application has been heard."""
        ...

    def counters(self) -> SwitchCounters:
        """Count the frames of each port since start. Read while the applications are still there.

        Raises `TrialFailed` where they have gone and took the counters with them."""
        ...

    def alive(self) -> str | None:
        """How it died, in a line with the end of its log; None while it runs."""
        ...

    def details(self) -> dict[str, str]:
        """The version and every setting worth recording."""
        ...

    def stop(self) -> None:
        """Undo everything `start` did. Idempotent."""
        ...


class Switch(StartedSwitch, Protocol):
    """A virtual switch under test. A context manager in effect: `stop` is always called."""

    name: str
    capabilities: Capabilities

    def availability(self) -> Availability:
        """Say whether this machine can run it. Must not change the machine."""
        ...

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start a private instance with these ports on these cores and return when it forwards or
        is ready to as soon as the ports' peers appear (polled, with a deadline).

        Raises `UnavailableError` or `TrialFailed` with the switch's own last words."""
        ...

    def process_ids(self) -> Sequence[int]:
        """Processes whose CPU time is the switch's own (empty for in-kernel switches)."""
        ...
