"""Proxies for nodes on another host, virtual machines among them.

The guest of a machine there has its own clock. The bench compares the guest's clock with its own
directly over the connection, since the agent forwards the guest's lines unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.environment.registry import traits_of
from switchmark.environment.vm.engine import GuestEngine, clock_error_us
from switchmark.environment.vm.packages import FETCH_S
from switchmark.errors import UnavailableError
from switchmark.host.host import Spawned
from switchmark.model.node import NodeSpec
from switchmark.model.rights import Rights
from switchmark.remote.codec import to_plain
from switchmark.remote.contact import HostLost
from switchmark.remote.hello import MachineMade, NodeMade
from switchmark.remote.host import RemoteProcess

if TYPE_CHECKING:
    from switchmark.remote.connection import Connection

CREATE_S = 30.0
CREATE_GUEST_S = 2 * FETCH_S  # its kernel may have to be fetched, and KVM to be tried
BOOT_START_S = 60.0  # its QEMU opens a tap for each port


class RemoteNode:
    """A node on another host."""

    def __init__(self, connection: Connection, node: NodeMade) -> None:
        self.spec = node.spec
        self.netns = node.netns
        self._number = node.node
        self._connection = connection
        self._closed = False

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """See `Node`."""
        return self._spawn(args[0], "spawn_engine", args=list(args))

    def spawn_program(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        rights: Rights | None = None,
        folder: Path | None = None,
    ) -> Spawned:
        """Raise UnavailableError: the user's programs are not on that host."""
        del env, rights, folder
        raise UnavailableError(
            f"{args[0]}: a user's program cannot be run on host {self._connection.target.name}",
            remedy="use vnf: forwarder, l2fwd, bridge or pcap",
        )

    def device_frames(self) -> tuple[int, int] | None:
        """See `Node`."""
        return self._pair("device_frames")

    def device_drops(self) -> tuple[int, int] | None:
        """See `Node`."""
        return self._pair("device_drops")

    def close(self) -> None:
        """See `Node`; on a lost host the agent closes it."""
        if not self._closed:
            self._closed = True
            with suppress(HostLost):
                self._connection.ask("close_node", 30.0, node=self._number)

    def _spawn(
        self, name: str, action: str, takes_s: float = 0.0, /, **values: Any
    ) -> RemoteProcess:
        process = self._connection.ask_for(
            dict[str, int], action, takes_s, node=self._number, **values
        )
        return RemoteProcess(self._connection, process, name)

    def _pair(self, question: str) -> tuple[int, int] | None:
        kind: Any = tuple[int, int] | None
        pair: tuple[int, int] | None
        pair = self._connection.ask_for(kind, "node", node=self._number, question=question)
        return pair


class RemoteMachine(RemoteNode):
    """A virtual machine on another host."""

    def __init__(self, connection: Connection, node: NodeMade, machine: MachineMade) -> None:
        super().__init__(connection, node)
        self.emulated = machine.emulated
        self.boot_timeout_s = machine.boot_timeout_s
        self.patience = machine.patience
        self._details = machine.details
        self._engines: list[GuestEngine] = []

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """See `Node`; the engine's times are those of this host's clock."""
        return self._guest(self._spawn(args[0], "spawn_engine", BOOT_START_S, args=list(args)))

    def spawn_bridge(self) -> Spawned:
        """See `VirtualMachine`."""
        return self._guest(self._spawn("bridge", "spawn_bridge", BOOT_START_S))

    def process_ids(self) -> Sequence[int]:
        """None on this host: the agent measures the machine's CPU time there."""
        return ()

    def details(self) -> dict[str, str]:
        """See `VirtualMachine`; for a lost host, the details before the machine booted."""
        with suppress(HostLost):
            self._details = self._connection.ask_for(
                dict[str, str], "node", node=self._number, question="details"
            )
        return self._details | {"clock_error_us": clock_error_us(self._engines)}

    def _guest(self, process: RemoteProcess) -> GuestEngine:
        self._engines.append(GuestEngine(process))
        return self._engines[-1]


def create_node(connection: Connection, environment: str, spec: NodeSpec) -> RemoteNode:
    """Create a node on the other host."""
    takes_s = CREATE_GUEST_S if traits_of(environment).guests else CREATE_S
    node = connection.ask_for(
        NodeMade, "create", takes_s, environment=environment, spec=to_plain(spec)
    )
    if node.machine is None:
        return RemoteNode(connection, node)
    return RemoteMachine(connection, node, node.machine)
