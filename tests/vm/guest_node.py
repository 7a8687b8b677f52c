"""A node that is a virtual machine: its port is a virtio-net device over vhost-user, and the
engine in it speaks to the bench over a virtio console, as one on the host does over its pipes.
Its clock is put in step with the host's, because samples of both ends are laid side by side.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.environment.base import NodeSpec
from switchmark.environment.netns import NetnsEnvironment, NetnsNode
from switchmark.switch.base import PortKind, Probe
from switchmark.testbed.host import Session, Spawned
from tests.vm.guest import Machine, new_exchange

FIRST_WITHOUT_TRAP = (8, 0)  # before, an emulated virtio-net with interrupts crashes QEMU

# The console is opened once for both ways: a second opening is refused.
JOB = """\
modprobe virtio_console
modprobe virtio_net
until ls /dev/vport*p1 >/dev/null 2>&1; do sleep 0.1; done
ip link set eth0 mtu {mtu} up
exec 3<>$(ls /dev/vport*p1)
python tests/vm/in_step.py {differ} "$SWITCHMARK_TRAFFIC" {args} <&3 >&3
"""


@dataclass
class GuestNode:
    """The machine runs as long as the engine in it."""

    inner: NetnsNode  # where its vhost-user socket is
    session: Session
    machine: Machine
    folders: list[Path]
    _spawned: list[Spawned] = field(default_factory=list)

    @property
    def spec(self) -> NodeSpec:
        return self.inner.spec

    @property
    def netns(self) -> str | None:
        return self.inner.netns

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """Boot, with the engine as the machine's job; QEMU's own streams are the engine's."""
        inside = list(args)
        inside[inside.index("--port") + 1] = "raw:dev=eth0,mmsg"
        port = self.spec.port
        differ = time.time_ns() - time.monotonic_ns()
        exchange = new_exchange(
            JOB.format(args=shlex.join(inside), mtu=port.mtu_bytes, differ=differ)
        )
        self.folders.append(exchange)
        quirk = "" if self.machine.qemu.version >= FIRST_WITHOUT_TRAP else ",vectors=0"
        devices = [
            *("-chardev", f"socket,id=net,path={port.socket_host},server=on"),
            *("-netdev", "vhost-user,id=n0,chardev=net"),
            *("-device", f"virtio-net-pci,netdev=n0,mac={port.mac},romfile={quirk}"),
            *("-device", "virtio-serial-pci", "-chardev", "stdio,id=con,signal=off"),
            *("-device", "virtserialport,chardev=con,nr=1,name=engine"),
        ]
        process = self.session.host.spawn([*self.machine.command(exchange), *devices])
        self._spawned.append(process)
        return process

    def spawn_program(self, args: Sequence[str], env: object) -> Spawned:
        raise NotImplementedError

    def device_frames(self) -> None:
        """The guest's device is out of the host's sight."""

    def device_drops(self) -> None:
        """The guest's device is out of the host's sight."""

    def close(self) -> None:
        for process in self._spawned:
            if process.poll() is None:
                process.terminate()
        self._spawned.clear()
        self.inner.close()


class HostToGuest(NetnsEnvironment):
    """The first end of each pair on the host, the second in a machine of its own."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.folders: list[Path] = []
        self._made = 0

    def probe(self) -> Probe:
        return Probe(True, version=".".join(map(str, self.machine.qemu.version)))

    def port_kinds(self) -> tuple[PortKind, ...]:
        return (PortKind.VHOST_USER,)

    def create(self, session: Session, spec: NodeSpec) -> NetnsNode:
        self._made += 1
        node = super().create(session, spec)
        if self._made % 2:
            return node
        return GuestNode(node, session, self.machine, self.folders)  # type: ignore[return-value]
