"""Interfaces of environments: the host, a network namespace, a container or a virtual machine.

An environment is one file of `switchmark/environment/`, with a class of the file's name. It makes
*nodes*. A node runs the engine, whose standard streams go to the bench.
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
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        rights: Rights | None = None,
        folder: Path | None = None,
    ) -> Spawned:
        """Run a program of the host inside the node, pinned to the node's cores. `rights`: None
        gives all rights of the node; containers and guests ignore it. `folder`: the program of an
        application reads and writes there, also in a container. Raises UnavailableError if the node
        does not see the host's programs."""
        ...

    def device_frames(self) -> tuple[int, int] | None:
        """(rx, tx) frames the kernel counted on the first port; None without a device."""
        ...

    def device_drops(self) -> tuple[int, int] | None:
        """(rx, tx) frames the kernel dropped at the node's devices; None without a device."""
        ...

    def close(self) -> None:
        """End all programs in the node and remove it. Idempotent."""
        ...


@runtime_checkable
class VirtualMachine(Protocol):
    """The further properties and methods of a node that is a virtual machine."""

    boot_timeout_s: float  # its application is ready after this time, also on a busy host
    patience: float  # the factor of its application's timeouts

    @property
    def emulated(self) -> bool:
        """True if it runs without hardware support. Its rates then do not show performance."""
        ...

    def spawn_bridge(self) -> Spawned:
        """Join its ports by a bridge in the guest's kernel until the standard input of the process
        ends. The process prints one line when the ports are joined."""
        ...

    def process_ids(self) -> Sequence[int]:
        """The host's processes that run the machine and use CPU time for it."""
        ...

    def details(self) -> dict[str, str]:
        """Return the description of its parts for the record."""
        ...


def patience_with(node: Node) -> float:
    """Return the factor of the timeouts of an application in this node."""
    return node.patience if isinstance(node, VirtualMachine) else 1.0


PLACES_MEMORY = "sys_nice"  # the capability that permits memory placement in a seccomp filter


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of an environment's nodes; planning reads them without touching the machine."""

    noun: str = ""  # a plural noun for the nodes, in messages
    guests: bool = False  # virtual machines: a port is a device of the guest; no veth joins two
    own_network: bool = True  # they have other devices and addresses than the host
    loads_programs: bool = True  # an application may load a program into the kernel (BPF)
    own_cgroup: bool = False  # each node has its own control group
    # Docker's seccomp filter refuses calls that place memory by NUMA node without PLACES_MEMORY.
    filters_placing: bool = False
    # The usual time in seconds that each node adds to a trial; twice for a switch. It is
    # longer on a busy machine.
    start_s: float = 0.0
    emulated_start_s: float = 0.0  # the same for a guest without KVM


def needed_under(traits: Traits, capabilities: Iterable[str]) -> tuple[str, ...]:
    """Return these capabilities, without PLACES_MEMORY if no filter requires it."""
    return tuple(c for c in capabilities if traits.filters_placing or c != PLACES_MEMORY)


@runtime_checkable
class DiffersByPort(Protocol):
    """An environment that needs more from the operating system for some kinds of port."""

    def port_availability(self, kind: PortKind) -> Availability:
        """Return whether this machine can make its nodes with ports of this kind."""
        ...


@dataclass(frozen=True, slots=True)
class IsolatedProgram:
    """A program of a switch that runs in an environment instead of on the host."""

    inside: Inside
    netns: str | None  # the network namespace that it sees; None: a namespace without devices
    log: Path | None  # for its standard error
    rights: Rights | None  # in a namespace; in a container it has the capabilities of `inside`
    note: Callable[[UndoEntry], None]  # records each change before it is made


@runtime_checkable
class SwitchEnvironment(Protocol):
    """An environment in which the program of a switch can also run (`switch_environment`)."""

    def spawn_isolated(self, session: Session, program: IsolatedProgram) -> Spawned:
        """Start the program. Raises SwitchmarkError, or TrialFailed with the end of the standard
        error of a program that did not start."""
        ...


class Environment(Protocol):
    """Makes nodes. Every resource goes through the session's ledger."""

    name: str
    traits: Traits

    def availability(self) -> Availability:
        """Return whether this machine can run it. Must not change the machine."""
        ...

    def port_kinds(self) -> tuple[PortKind, ...]:
        """Return the kinds of port that its nodes can have."""
        ...

    def create(self, session: Session, spec: NodeSpec) -> Node:
        """Make the node with its ports. A veth has one end inside, both ends up, no IPv6 and a
        static neighbour entry for the peer. The folder of a vhost-user socket is mounted."""
        ...

    def create_wire(self, session: Session, a: NodeSpec, b: NodeSpec) -> tuple[Node, Node]:
        """Make two nodes that are joined without a switch, for the baseline: by a veth pair with an
        end in each, or by a shared folder for vhost-user sockets."""
        ...


def availability_with(environment: Environment, kind: PortKind) -> Availability:
    """Return whether this machine can run the environment with ports of this kind."""
    if isinstance(environment, DiffersByPort):
        return environment.port_availability(kind)
    return environment.availability()
