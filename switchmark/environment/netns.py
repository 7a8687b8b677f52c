"""Network namespaces: the engine on the host, in a separate network namespace.

This is the lightest environment: only the network is separate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from switchmark.engine.binary import find_engine
from switchmark.environment.support.base import IsolatedProgram, Traits
from switchmark.environment.support.batons import folder_of, with_baton
from switchmark.host import place
from switchmark.host.host import Session, Spawned
from switchmark.host.kernel import device_counters, namespaces
from switchmark.host.place import Facility
from switchmark.host.programs import not_installed
from switchmark.host.undo.entries import NetworkNamespace
from switchmark.model.capabilities import Availability, available
from switchmark.model.node import NodeSpec
from switchmark.model.ports import PortKind
from switchmark.model.rights import Rights
from switchmark.port.attach import attach, attach_wire
from switchmark.port.attached import Attached, namespace


class NetnsNode:
    """A network namespace with its ports, in which the engine can be run."""

    def __init__(self, session: Session, attached: Attached, engine: Path) -> None:
        self.spec: NodeSpec = attached.spec
        self.netns = attached.netns
        self._session = session
        self._attached = attached
        self._engine = engine
        self._spawned: list[Spawned] = []

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """Run `switchmark-traffic ARGS` in the namespace, pinned to the node's cores."""
        arguments = with_baton(args, folder_of(self._session))
        return self.spawn_program([str(self._engine), *arguments], {})

    def spawn_program(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        rights: Rights | None = None,
        folder: Path | None = None,
    ) -> Spawned:
        """Run a program of the host in the namespace, pinned to the node's cores, with these
        rights. It sees all folders of the host."""
        del folder
        process = self._session.host.spawn(
            args, cores=self.spec.cores or None, env=env, netns=self.netns, rights=rights
        )
        self._spawned.append(process)
        return process

    def device_frames(self) -> tuple[int, int] | None:
        """(rx, tx) frames the kernel counted on the first port; None without a device."""
        if self.spec.port.device_inside is None:
            return None
        return device_counters.device_frames(self.netns, self.spec.port.device_inside)

    def device_drops(self) -> tuple[int, int] | None:
        """(rx, tx) frames the kernel dropped at the node's devices; None without a device."""
        drops = [
            device_counters.device_drops(self.netns, port.device_inside)
            for port in self.spec.ports
            if port.device_inside is not None
        ]
        return (sum(rx for rx, _ in drops), sum(tx for _, tx in drops)) if drops else None

    def close(self) -> None:
        """End what still runs in the node and remove it. Idempotent."""
        self._end_engines()
        self._attached.detach(self._session)

    def begin_close(self) -> None:
        """End what still runs, and let the kernel begin to remove the ports. It removes many
        namespaces in one go, while one device at a time takes it some 15 ms."""
        self._end_engines()
        self._attached.release_namespace(self._session)

    def port_gone(self) -> bool:
        """Return True if the switch's ends of the ports are gone from the machine."""
        devices = (port.device_switch_side for port in self.spec.ports)
        return not any(device and Path("/sys/class/net", device).exists() for device in devices)

    def _end_engines(self) -> None:
        for process in self._spawned:
            if process.poll() is None:
                process.terminate()
        self._spawned.clear()


class NetnsEnvironment:
    """Makes nodes that are network namespaces, or namespaces with something around them."""

    name = "netns"
    traits = Traits(noun="processes in network namespaces")
    sockets_inside: str | None = None  # where a node sees its sockets; None: where the host does

    def availability(self) -> Availability:
        """Available if network namespaces can be made, and with `ip`, which enters them."""
        return (
            place.missing(Facility.NETWORK_NAMESPACE)
            or not_installed("ip", "iproute2")
            or available(os.uname().release)
        )

    def port_kinds(self) -> tuple[PortKind, ...]:
        """The kinds of port that its nodes can have; devices can be moved into them."""
        sockets = (PortKind.VHOST_USER, PortKind.MEMIF)
        switch_made = (PortKind.MACVLAN, PortKind.VF, PortKind.VALE)
        attachments = (PortKind.ATTACHMENT,) if self.name == NetnsEnvironment.name else ()
        return (PortKind.VETH, *sockets, *switch_made, *attachments)

    def maker(self) -> Callable[[Session, Attached], NetnsNode]:
        """A function that makes a node of its place in the network. Raises UnavailableError."""
        return partial(NetnsNode, engine=find_engine())

    def place(self, session: Session, spec: NodeSpec) -> Attached:
        """A node's place in the network, without ports so far."""
        return namespace(session, spec)

    def spawn_isolated(self, session: Session, program: IsolatedProgram) -> Spawned:
        """See `SwitchEnvironment`: in the namespace of its ports or, without ports, a new one."""
        inside, netns = program.inside, program.netns
        if netns is None:
            netns = inside.name
            program.note(NetworkNamespace(netns))
            namespaces.create_namespace(netns)
        return session.host.spawn(
            inside.args, cores=inside.cores or None, env=inside.env, log=program.log,
            netns=netns, rights=program.rights,
        )  # fmt: skip

    def create(self, session: Session, spec: NodeSpec) -> NetnsNode:
        """Make a node with its ports for a switch, whole or not at all."""
        make = self.maker()
        place = self.place(session, spec)
        with place.or_nothing(session):
            return make(session, attach(session, place, self.sockets_inside))

    def create_wire(
        self, session: Session, a: NodeSpec, b: NodeSpec
    ) -> tuple[NetnsNode, NetnsNode]:
        """Make two nodes joined without a switch, both or none."""
        make = self.maker()
        near = self.place(session, a)
        with near.or_nothing(session):
            far = self.place(session, b)
            with far.or_nothing(session):
                ends = attach_wire(session, near, far, self.sockets_inside)
                return make(session, ends[0]), make(session, ends[1])
