"""Stand-ins for nodes on another host, virtual machines among them.

The guest of a machine there has its own clock. The bench compares it with its own right over the
connection, as it does that of a guest here: what the agent passes on is what the guest said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
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
CREATE_GUEST_S = 2 * FETCH_S  # at first its kernel may have to be fetched, and KVM to be tried
SWITCH_ON_S = 60.0  # its QEMU opens a tap for each port


class RemoteNode:
    """A node on another host."""

    def __init__(self, connection: Connection, made: NodeMade) -> None:
        self.spec = made.spec
        self.netns = made.netns
        self._number = made.node
        self._connection = connection
        self._closed = False

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """See `Node`."""
        return self._spawn(args[0], "spawn_engine", args=list(args))

    def spawn_program(
        self, args: Sequence[str], env: Mapping[str, str], may: Rights | None = None
    ) -> Spawned:
        """Raises UnavailableError: programs of this machine are not on that one."""
        del env, may
        raise UnavailableError(
            f"{args[0]}: a program of the user's cannot be run on host "
            f"{self._connection.target.name}",
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

    def _spawn(self, name: str, what: str, takes_s: float = 0.0, /, **values: Any) -> RemoteProcess:
        made = self._connection.ask_for(dict[str, int], what, takes_s, node=self._number, **values)
        return RemoteProcess(self._connection, made, name)

    def _pair(self, what: str) -> tuple[int, int] | None:
        kind: Any = tuple[int, int] | None
        found: tuple[int, int] | None
        found = self._connection.ask_for(kind, "node", node=self._number, question=what)
        return found


class RemoteMachine(RemoteNode):
    """A virtual machine on another host."""

    def __init__(self, connection: Connection, made: NodeMade, machine: MachineMade) -> None:
        super().__init__(connection, made)
        self.emulated = machine.emulated
        self.boot_timeout_s = machine.boot_timeout_s
        self.patience = machine.patience
        self._details = machine.details
        self._engines: list[GuestEngine] = []

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """See `Node`; the engine's times are those of this host's clock."""
        return self._guest(self._spawn(args[0], "spawn_engine", SWITCH_ON_S, args=list(args)))

    def spawn_bridge(self) -> Spawned:
        """See `VirtualMachine`."""
        return self._guest(self._spawn("bridge", "spawn_bridge", SWITCH_ON_S))

    def process_ids(self) -> Sequence[int]:
        """None of this host: what the machine costs there is measured by the agent."""
        return ()

    def details(self) -> dict[str, str]:
        """See `VirtualMachine`; of a lost host, as they were before it was switched on."""
        with suppress(HostLost):
            self._details = self._connection.ask_for(
                dict[str, str], "node", node=self._number, question="details"
            )
        return self._details | {"clock_error_us": clock_error_us(self._engines)}

    def _guest(self, process: RemoteProcess) -> GuestEngine:
        self._engines.append(GuestEngine(process))
        return self._engines[-1]


def create_node(connection: Connection, environment: str, spec: NodeSpec) -> RemoteNode:
    """Have a node made on the other host."""
    takes_s = CREATE_GUEST_S if traits_of(environment).guests else CREATE_S
    made = connection.ask_for(
        NodeMade, "create", takes_s, environment=environment, spec=to_plain(spec)
    )
    if made.machine is None:
        return RemoteNode(connection, made)
    return RemoteMachine(connection, made, made.machine)
