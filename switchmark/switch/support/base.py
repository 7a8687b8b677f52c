"""The protocol of a switch under test, with its optional parts.

A switch is one file of `switchmark/switch/` with a class that fulfils `Switch` and has the file's
name (`ovs_dpdk.py` is `ovs-dpdk`). No other file names it. The bench reads its `availability`,
calls `start` with the ports of the trial, reads `counters` around the measurement, and calls
`stop`. A switch writes all that it makes on the machine to the session's ledger first, so that the
next run can clean up after a crash of the bench.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeGuard, cast, runtime_checkable

from switchmark.errors import Refusal, TrialFailed, UsageError
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
    """A switch with port kinds of `MADE_BY_SWITCH`, whose ports are made before the nodes."""

    def make_ports(self, session: Session, requested: Sequence[SwitchPort]) -> list[MadePort]:
        """Make the requested ports, which have their index, kind, address and MTU. `start`, which
        follows, gets the same ports in their nodes; `stop` removes them. The end of a cable may be
        among them for its number; it exists already and is not made."""
        ...


@runtime_checkable
class DiffersByMode(Protocol):
    """A switch that needs more for some connect modes than for others."""

    def mode_availability(self, mode: ConnectMode) -> Availability:
        """Return the availability on this machine in this mode, one of its capabilities."""
        ...


@runtime_checkable
class Splits(Protocol):
    """A switch that can divide frames between several chains (`Capabilities.splits`)."""

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

    name: str

    def table_refusal(self, table: FunctionTable) -> Refusal | None:
        """Return why it cannot express a table with the options that it has; None if it can.
        Changes nothing, so that a campaign can be refused when it is read."""
        ...


def refuse_impossible(switch: RefusesTables, table: FunctionTable) -> None:
    """Raise `UsageError` if the switch cannot express this table."""
    if (refusal := switch.table_refusal(table)) is not None:
        raise UsageError(refusal.about(f"{switch.name}: "))


class HasMainThread(Protocol):
    """A switch with a main thread that does not forward (`Capabilities.main_thread`)."""

    main_core: int | None  # set before `start`; None: the switch chooses


@runtime_checkable
class NicSwitch(Protocol):
    """A switch that is a NIC (`Capabilities.is_nic`)."""

    nic: str | None  # its network device, set before all calls; None: the configured device


def plug_in(switch: Switch, device: str) -> None:
    """Set the device of a switch that is a NIC. Other switches get the device as a port, and do not
    change."""
    if switch.capabilities.is_nic and isinstance(switch, NicSwitch):
        switch.nic = device


def splits(switch: Switch) -> TypeGuard[Splits]:
    """Return True if the switch can divide frames between several chains."""
    return switch.capabilities.splits


def has_main_thread(switch: Switch) -> TypeGuard[HasMainThread]:
    """Return True if the switch has a main thread that does not forward."""
    return switch.capabilities.main_thread


def availability_for(switch: Switch, mode: ConnectMode) -> Availability:
    """Return the availability of the switch in this mode, and of applications on its ports."""
    if isinstance(switch, DiffersByMode):
        found = switch.mode_availability(mode)
    else:
        found = switch.availability()
    return (without_dpdk(switch.capabilities) if found.available else None) or found


@runtime_checkable
class TakesHugepages(Protocol):
    """A switch that reports before its start the memory of its processes, in hugepages or on small
    pages."""

    def hugepages_mb(self, ports: Sequence[SwitchPort], mode: ConnectMode) -> list[int]:
        """Return the memory of each of its processes in MiB."""
        ...


@runtime_checkable
class HasSocketBuffers(Protocol):
    """A switch whose sockets have buffers above the machine's limits if the kernel permits it."""

    unforced_buffers: bool  # set before `start`; True: within the limits


@runtime_checkable
class HasPages(Protocol):
    """A switch whose memory can be on the kernel's ordinary pages (`Capabilities.page_sizes`)."""

    small_pages: bool  # set before `start`; False: in hugepages


def attacher_of(switch: Switch) -> Attacher:
    """Return the switch as a network to which namespaces can be attached. Raises TrialFailed."""
    if not switch.capabilities.attaches:
        raise TrialFailed(f"{switch.name}: nothing can be attached to it")
    return cast("Attacher", switch)


@runtime_checkable
class Discardable(Protocol):
    """A switch whose devices are made in its namespace, and can end together with it."""

    def discard(self) -> None:
        """Stop for good, without moving the bench's devices back. Idempotent."""
        ...


@runtime_checkable
class HasNetwork(Protocol):
    """A switch that is a network with its own devices, whose counters prove a crossing."""

    def network(self) -> KnownNetwork:
        """Return the present network; called after `start`, when paths have been verified."""
        ...


@runtime_checkable
class WatchesNetwork(Protocol):
    """A switch that is a network of the user, whose round-trip time is watched during the load."""

    def begin_watch(self) -> None:
        """Begin, before the load."""
        ...

    def check_watch(self) -> None:
        """Raise `TrialFailed` if the load has slowed the network down."""
        ...


@runtime_checkable
class Logging(Protocol):
    """A switch whose output is stored while it runs."""

    def output(self) -> str:
        """Return the end of its output, at most 64 KiB."""
        ...


class StartedSwitch(Protocol):
    """The calls to a switch that has been started, on this host or on a remote host."""

    def wait_ports_up(self, timeout_s: float) -> None:
        """Return when every port has its peer and passes frames. Raises `TrialFailed`."""
        ...

    def wait_converged(self) -> None:
        """Return when the learnt addresses apply to every later frame. Called when every
        application has sent frames."""
        ...

    def counters(self) -> SwitchCounters:
        """Count the frames of each port since the start, while the applications still run.

        Raises `TrialFailed` if they have ended and the counters ended with them."""
        ...

    def alive(self) -> str | None:
        """Return how it died, in a line with the end of its log; None while it runs."""
        ...

    def details(self) -> dict[str, str]:
        """Return the version and every setting for the record."""
        ...

    def stop(self) -> None:
        """Undo `start`. Idempotent."""
        ...


class Switch(StartedSwitch, Protocol):
    """A virtual switch under test. `stop` is always called."""

    name: str
    capabilities: Capabilities

    def availability(self) -> Availability:
        """Return its availability on this machine, without a change of the machine."""
        ...

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start a private instance with these ports on these cores. Return when it forwards, or
        will forward as soon as the ports' peers exist.

        Raises `UnavailableError` or `TrialFailed` with the end of the switch's output."""
        ...

    def process_ids(self) -> Sequence[int]:
        """Return the processes of the switch, for their CPU time (empty for kernel switches)."""
        ...
