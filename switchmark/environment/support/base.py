"""Where a traffic application lives: on the bare host, in a network namespace, in a container.

An environment is one file of `switchmark/environment/`, with a class of the file's name. It makes
*nodes*; a node runs the engine with its standard streams handed to the bench.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from switchmark.host.containers.in_container import Inside
from switchmark.host.host import Session, Spawned
from switchmark.host.undo.entries import UndoEntry
from switchmark.model.capabilities import Availability
from switchmark.model.node import NodeSpec
from switchmark.model.ports import PortKind
from switchmark.model.rights import Rights


class Node(Protocol):
    """A place where one traffic application runs (one at a time in a container)."""

    spec: NodeSpec  # as requested, with the ports completed
    netns: str | None  # for `ip netns exec`, also for a container; None: the host's own

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """Run `switchmark-traffic ARGS` inside the node, pinned to the node's cores."""
        ...

    def spawn_program(
        self, args: Sequence[str], env: Mapping[str, str], rights: Rights | None = None
    ) -> Spawned:
        """Run a program of the host inside the node, pinned to the node's cores, with these
        rights: None is all that the node has, and a container or a guest has its own,
        whatever is asked. Raises UnavailableError where the node does not see the host's
        programs."""
        ...

    def device_frames(self) -> tuple[int, int] | None:
        """(rx, tx) frames the kernel counted on the first port; None without a device."""
        ...

    def device_drops(self) -> tuple[int, int] | None:
        """(rx, tx) frames the kernel dropped at the node's devices; None without a device."""
        ...

    def close(self) -> None:
        """End what still runs in the node and remove it. Idempotent."""
        ...


@runtime_checkable
class VirtualMachine(Protocol):
    """The further properties and methods of a node that is a virtual machine."""

    boot_timeout_s: float  # until its application is ready, even on a busy host
    patience: float  # factor of the time in which its application must answer

    @property
    def emulated(self) -> bool:
        """True if it runs without hardware support: its rates prove function, never performance."""
        ...

    def spawn_bridge(self) -> Spawned:
        """Join its ports by a bridge in the guest's kernel until its standard input ends. It prints
        one line when they are joined."""
        ...

    def process_ids(self) -> Sequence[int]:
        """Processes of the host whose CPU time is the machine's."""
        ...

    def details(self) -> dict[str, str]:
        """The record's account of its parts."""
        ...


def patience_with(node: Node) -> float:
    """The factor by which an application in this node may answer more slowly than on the host."""
    return node.patience if isinstance(node, VirtualMachine) else 1.0


PLACES_MEMORY = "sys_nice"  # the capability, where a filter asks for one


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of an environment's nodes; planning reads them without touching the machine."""

    noun: str = ""  # a plural noun for the nodes, in messages
    guests: bool = False  # virtual machines: no cable joins two, a port is a device of the guest
    own_network: bool = True  # their devices and addresses are apart from the host's
    loads_programs: bool = True  # an application may load a program into the kernel (BPF)
    own_cgroup: bool = False  # each node has its own control group
    # Docker's seccomp filter refuses calls that place memory by NUMA node without PLACES_MEMORY.
    filters_placing: bool = False
    # The usual time that each node adds to a trial, in seconds; twice for a switch. It is
    # longer on a busy machine.
    start_s: float = 0.0
    emulated_start_s: float = 0.0  # the same for a guest without KVM


def needed_under(traits: Traits, capabilities: Iterable[str]) -> tuple[str, ...]:
    """These capabilities, without one that no filter there asks for."""
    return tuple(one for one in capabilities if traits.filters_placing or one != PLACES_MEMORY)


@runtime_checkable
class DiffersByPort(Protocol):
    """An environment that needs more from the operating system for some kinds of port."""

    def port_availability(self, kind: PortKind) -> Availability:
        """Say whether this machine can make its nodes with ports of this kind."""
        ...


@dataclass(frozen=True, slots=True)
class Apart:
    """A program of a switch, to be run apart from the host's own."""

    inside: Inside
    netns: str | None  # the network that it sees; None: one without devices
    log: Path | None  # for its standard error
    rights: Rights | None  # in a namespace; in a container it has the capabilities of `inside`
    note: Callable[[UndoEntry], None]  # records each change before it is made


@runtime_checkable
class HoldsSwitches(Protocol):
    """An environment in which the program of a switch can also run (`switch_environment`)."""

    def spawn_apart(self, session: Session, program: Apart) -> Spawned:
        """Start the program. Raises SwitchmarkError, or TrialFailed with the end of the standard
        error of a program that did not start."""
        ...


class Environment(Protocol):
    """Makes nodes. Every resource goes through the session's ledger."""

    name: str
    traits: Traits

    def availability(self) -> Availability:
        """Say whether this machine can run it. Must not change the machine."""
        ...

    def port_kinds(self) -> tuple[PortKind, ...]:
        """The kinds of port that its nodes can have."""
        ...

    def create(self, session: Session, spec: NodeSpec) -> Node:
        """Make the node with its ports attached (veth made, one end inside, both ends up, IPv6 off,
        static neighbour entry for the peer; vhost-user socket folder mounted)."""
        ...

    def create_wire(self, session: Session, a: NodeSpec, b: NodeSpec) -> tuple[Node, Node]:
        """Make two nodes joined by one wire without any switch (veth: one pair, an end in each;
        vhost-user: a shared socket folder). Headroom is read from this baseline."""
        ...


def availability_with(environment: Environment, kind: PortKind) -> Availability:
    """Return whether this machine can run the environment with ports of this kind."""
    if isinstance(environment, DiffersByPort):
        return environment.port_availability(kind)
    return environment.availability()
