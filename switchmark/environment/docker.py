"""Docker containers: the engine in a container of the engine's own root, with few capabilities.

A node is two containers, as a pod is: one that only holds the network namespace, into which the
ports are attached, and around each engine one that joins it. `docker run` in the foreground passes
on the standard streams, signals and the exit code.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from switchmark.engine.binary import find_engine
from switchmark.environment.netns import NetnsNode
from switchmark.environment.support import batons
from switchmark.environment.support.base import OF_A_NAMESPACE, Traits
from switchmark.environment.support.rootfs import (
    BUSYBOX_INSIDE,
    ENGINE_INSIDE,
    build_root,
    find_busybox,
)
from switchmark.errors import UnavailableError
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.model.node import NodeSpec
from switchmark.model.ports import PortKind
from switchmark.port.attach import attach, attach_wire
from switchmark.port.attached import Attached, check_name
from switchmark.testbed.container import docker_daemon
from switchmark.testbed.container.confined import DOCKER_SCRATCH, docker_capabilities, docker_least
from switchmark.testbed.container.docker_daemon import Daemon
from switchmark.testbed.container.in_container import Inside, sockets_shown, spawn_docker
from switchmark.testbed.host import Session, Spawned
from switchmark.testbed.kernel import namespaces, procfs
from switchmark.testbed.kernel.procfs import SESSION_VARIABLE, ProcessIdentity
from switchmark.testbed.undo.entries import DockerObject, NetworkNamespace

SOCKET_FOLDER_INSIDE = "/run/vhost"

LEAST = docker_least(run_mib=1)
HOLD = (BUSYBOX_INSIDE, "sleep", "1000000000")  # what holds a network does


class DockerNode(NetnsNode):
    """A container with its ports; the one with the engine exists as long as the engine runs."""

    def __init__(
        self, session: Session, attached: Attached, engine: Path, daemon: Daemon, holder: int
    ) -> None:
        super().__init__(session, attached, engine)
        self._daemon = daemon
        self._holder = ProcessIdentity.of(holder)
        self._name = str(attached.netns)
        container = DockerObject("container", self._name, daemon.host)
        attached.entries.append(session.ledger.record(container))

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """Run a container with `switchmark-traffic ARGS` in it, pinned to the node's cores.

        Raises UnavailableError while an engine runs in it already."""
        if any(process.poll() is None for process in self._spawned):
            raise UnavailableError(f"container {self._name}: an engine runs in it already")
        cores = ",".join(map(str, self.spec.cores))
        folders = ["-v", f"{batons.folder_of(self._session)}:{batons.FOLDER_INSIDE}"]
        if self.spec.port.socket_host is not None:
            folders += ["-v", f"{self.spec.port.socket_host.parent}:{SOCKET_FOLDER_INSIDE}"]
        command = self._daemon.command(
            *("run", "-i", "--rm", "--name", self._name, *LEAST, *folders),
            *("--network", f"container:{self._name}-net", "--cpuset-cpus", cores),
            *docker_capabilities(self.spec.linux_capabilities),
            *DOCKER_SCRATCH,
            *("-e", f"{SESSION_VARIABLE}={self._session.id}", "-e", "LC_ALL=C"),
            *(self._daemon.image, ENGINE_INSIDE, *batons.with_baton(args, batons.FOLDER_INSIDE)),
        )
        process = self._session.host.spawn(command)
        self._spawned.append(process)
        return process

    def spawn_program(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        may: Sequence[str] | None = None,  # noqa: ARG002
    ) -> Spawned:
        """Run a container with a program of the host's in it; it then sees the host's /usr and
        the program's own folder, too, read-only.

        Raises TrialFailed."""
        inside = Inside(
            self._name,
            args,
            self.spec.linux_capabilities,
            sockets_shown(self.spec.port.socket_host, SOCKET_FOLDER_INSIDE),
            self.spec.cores,
            env,
        )
        network = f"container:{self._name}-net"
        process = spawn_docker(self._session, self._daemon, inside, network=network)
        self._spawned.append(process)
        return process

    def begin_close(self) -> None:
        """End what still runs, and the container that holds the namespace; its daemon then cleans
        up."""
        self._end_engines()
        if self._holder is not None:
            procfs.end_processes([self._holder], grace_s=0.0)
        self._attached.release_namespace(self._session)


class DockerEnvironment:
    """Makes nodes that are Docker containers, of the user's daemon or of one of our own."""

    name = "docker"
    traits = Traits(loads_programs=False, start_s=0.6)

    def availability(self) -> Availability:
        """Available with a daemon, or the program to start one, a static BusyBox, and root."""
        if os.geteuid() != 0:
            return unavailable("not root", remedy="run switchmark as root (sudo)")
        if shutil.which("docker") is None:
            return unavailable("no `docker` program", remedy="apt install docker.io")
        try:
            find_busybox()
        except UnavailableError:
            return unavailable("no static BusyBox", remedy="apt install busybox-static")
        if version := docker_daemon.users_own():
            return available(f"{version} (the running daemon)")
        if shutil.which("dockerd") is None:
            return unavailable(
                "no Docker daemon answers, and there is no `dockerd` to start one",
                remedy="apt install docker.io",
            )
        return available("a daemon of its own")

    def port_kinds(self) -> tuple[PortKind, ...]:
        """The kinds of port that its nodes can have."""
        return OF_A_NAMESPACE

    def create(self, session: Session, spec: NodeSpec) -> DockerNode:
        """Make a container with its ports for a switch."""
        engine, daemon = _ready(session)
        held, pid = _hold(session, daemon, spec)
        return DockerNode(session, attach(session, held, SOCKET_FOLDER_INSIDE), engine, daemon, pid)

    def create_wire(
        self, session: Session, a: NodeSpec, b: NodeSpec
    ) -> tuple[DockerNode, DockerNode]:
        """Make two containers joined without a switch."""
        engine, daemon = _ready(session)
        held = [_hold(session, daemon, spec) for spec in (a, b)]
        ends = attach_wire(session, held[0][0], held[1][0], SOCKET_FOLDER_INSIDE)
        return (
            DockerNode(session, ends[0], engine, daemon, held[0][1]),
            DockerNode(session, ends[1], engine, daemon, held[1][1]),
        )


def _ready(session: Session) -> tuple[Path, Daemon]:
    engine = find_engine()
    return engine, docker_daemon.daemon_for(session, build_root(engine))


def _hold(session: Session, daemon: Daemon, spec: NodeSpec) -> tuple[Attached, int]:
    """Start a container that holds a network namespace, under a name that `ip netns` knows."""
    check_name(spec)
    name = f"sm{session.id}-{spec.name}"
    entries = [session.ledger.record(NetworkNamespace(name))]
    entries.append(session.ledger.record(DockerObject("container", f"{name}-net", daemon.host)))
    pid = docker_daemon.hold_network(session, daemon, f"{name}-net", HOLD)
    namespaces.name_namespace(name, pid)
    return Attached(spec, name, entries), pid
