"""Docker containers: the engine in a container with a minimal root file system.

A node is several containers, as a pod is: one that only holds the network namespace, into which the
ports are attached, and one for each engine or program, which joins it. `docker run` in the
foreground passes on the standard streams, signals and the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from switchmark.engine.binary import find_engine
from switchmark.environment.netns import NetnsEnvironment
from switchmark.environment.support.base import IsolatedProgram, Traits
from switchmark.environment.support.container import SOCKET_FOLDER_INSIDE, ContainerNode
from switchmark.environment.support.rootfs import (
    BUSYBOX_INSIDE,
    ENGINE_INSIDE,
    build_root,
    no_busybox,
)
from switchmark.host import place
from switchmark.host.containers import docker_daemon
from switchmark.host.containers.confined import DOCKER_SCRATCH, docker_capabilities, docker_least
from switchmark.host.containers.docker_daemon import Daemon
from switchmark.host.containers.in_container import (
    Contained,
    Inside,
    pid_in_docker,
    spawn_docker,
)
from switchmark.host.host import Session, Spawned
from switchmark.host.kernel import device_counters, mounts, namespaces, procfs
from switchmark.host.kernel.procfs import SESSION_VARIABLE, ProcessIdentity
from switchmark.host.place import Facility
from switchmark.host.programs import not_installed, which
from switchmark.host.undo.entries import CgroupsNamed, DockerObject, NetworkNamespace
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.model.node import NodeSpec
from switchmark.port.attached import Attached, check_name

LEAST = docker_least(run_mib=1)
HOLD = (BUSYBOX_INSIDE, "sleep", "1000000000")  # the command of a container that holds a network


class DockerNode(ContainerNode):
    """A Docker container with its ports."""

    def __init__(self, session: Session, attached: Attached, engine: Path) -> None:
        super().__init__(session, attached, engine)
        self._daemon = _daemon(session)
        self._group: list[str] = []
        if self._daemon.host:
            # All groups below that of the daemon have together the weight of one process of the
            # host. In a separate group, an application has the same share of a busy core as in a
            # network namespace.
            attached.entries.append(session.ledger.record(CgroupsNamed(self._name)))
            self._group = ["--cgroup-parent", f"/{self._name}"]

    def run_engine(self, name: str, args: Sequence[str]) -> Spawned:
        """See `ContainerNode`."""
        self._record(name)
        cores = ",".join(map(str, self.spec.cores))
        folders = [w for host, inside in self.folders() for w in ("-v", f"{host}:{inside}")]
        command = self._daemon.command(
            *("run", "-i", "--rm", "--name", name, *LEAST, *folders),
            *("--network", f"container:{self._name}-net", "--cpuset-cpus", cores),
            *self._group,
            *docker_capabilities(self.linux_capabilities()),
            *DOCKER_SCRATCH,
            *("-e", f"{SESSION_VARIABLE}={self._session.id}", "-e", "LC_ALL=C"),
            *(self._daemon.image, ENGINE_INSIDE, *args),
        )
        host = self._session.host
        outer = host.spawn(command, container=name)
        return Contained(outer, lambda: pid_in_docker(host, self._daemon, name))

    def run_program(self, inside: Inside) -> Spawned:
        """See `ContainerNode`."""
        self._record(inside.name)
        network = f"container:{self._name}-net"
        return spawn_docker(
            self._session, self._daemon, inside, network=network, options=self._group
        )

    def _record(self, name: str) -> None:
        """Enter a container in the ledger before it is made."""
        container = DockerObject("container", name, self._daemon.host)
        self._attached.entries.append(self._session.ledger.record(container))

    def begin_close(self) -> None:
        """End what still runs, and the container that holds the namespace; its daemon then cleans
        up."""
        self._end_engines()
        if self._attached.holder is not None:
            procfs.end_processes([self._attached.holder], grace_s=0.0)
        self._attached.release_namespace(self._session)


NEEDS = (Facility.NETWORK_NAMESPACE, Facility.CONTROL_GROUPS)


class DockerEnvironment(NetnsEnvironment):
    """Creates nodes that are Docker containers, in the user's daemon or the bench's own."""

    name = "docker"
    traits = Traits(
        noun="Docker containers",
        loads_programs=False,
        own_cgroup=True,
        filters_placing=True,
        start_s=0.6,
    )
    sockets_inside = SOCKET_FOLDER_INSIDE

    def availability(self) -> Availability:
        """Available with a daemon, or the program to start one, a static BusyBox, and `NEEDS`."""
        problem = place.missing(*NEEDS) or not_installed("docker", "docker.io") or no_busybox()
        if problem is not None:
            return problem
        if version := docker_daemon.user_daemon_version():
            return available(f"{version} (the running daemon)")
        if which("dockerd") is None:
            return unavailable(
                "no Docker daemon answers, and there is no `dockerd` to start one",
                remedy="apt install docker.io",
            )
        return available("with a separate daemon")

    def maker(self) -> Callable[[Session, Attached], DockerNode]:
        """A function that makes a node; its container joins the namespace when the engine
        starts."""
        return partial(DockerNode, engine=find_engine())

    def place(self, session: Session, spec: NodeSpec) -> Attached:
        """A container that holds a network namespace, with a name for `ip netns`."""
        check_name(spec)
        name, daemon = f"sm{session.id}-{spec.name}", _daemon(session)
        container = DockerObject("container", f"{name}-net", daemon.host)
        with session.ledger.making(NetworkNamespace(name), container) as entries:
            pid = docker_daemon.hold_network(session, daemon, f"{name}-net", HOLD)
            namespaces.name_namespace(name, pid)
        return Attached(spec, name, entries, holder=ProcessIdentity.of(pid))

    def spawn_isolated(self, session: Session, program: IsolatedProgram) -> Spawned:
        """See `SwitchEnvironment`."""
        daemon, inside, network = _daemon(session), program.inside, "none"
        if program.netns is not None:
            network = _take_over(session, daemon, program, program.netns)
        program.note(DockerObject("container", inside.name, daemon.host))
        return spawn_docker(session, daemon, inside, program.log, network)


def _daemon(session: Session) -> Daemon:
    return docker_daemon.daemon_for(session, build_root(find_engine()))


def _take_over(session: Session, daemon: Daemon, program: IsolatedProgram, netns: str) -> str:
    """The network of a container that only holds it. Docker joins no namespace of others, so the
    devices go into its own, which takes over the name."""
    holder = f"{program.inside.name}-net"
    program.note(DockerObject("container", holder, daemon.host))
    pid = docker_daemon.hold_network(session, daemon, holder, HOLD)
    devices = [name for name in device_counters.all_device_counters(netns) if name != "lo"]
    _batch(session, netns, [f"link set dev {device} netns {pid}" for device in devices])
    path = namespaces.NETNS_DIR / netns
    mounts.unmount(path)
    mounts.bind(f"/proc/{pid}/ns/net", path)
    _batch(session, netns, [f"link set dev {device} up" for device in devices])
    return f"container:{holder}"


def _batch(session: Session, netns: str, lines: Sequence[str]) -> None:
    """Run lines of `ip` in a namespace."""
    if lines:
        session.host.run(["ip", "-n", netns, "-batch", "-"], input_text="\n".join(lines) + "\n")
