"""A switch inside a container: a host whose spawned programs run in containers of their own.

A switch under test starts its programs through its session's host. Given this one in its place, it
starts each in an LXC or Docker container, and otherwise works as it does on the host: its tools
reach it by the sockets in the session's folder, which the container sees under the same path, as it
sees the host's /usr, read-only. `netns` sets nothing apart but the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from switchmark.engine.binary import find_engine
from switchmark.environment.docker import HOLD
from switchmark.environment.support.rootfs import build_root
from switchmark.testbed.container import docker_daemon
from switchmark.testbed.container.docker_daemon import Daemon
from switchmark.testbed.container.in_container import (
    Inside,
    ShownPath,
    lxc_root,
    spawn_docker,
    spawn_lxc,
)
from switchmark.testbed.host import Completed, Host, Session, Spawned
from switchmark.testbed.kernel import mounts, namespaces
from switchmark.testbed.kernel.device_counters import all_device_counters
from switchmark.testbed.undo.entries import Container, Directory, DockerObject, NetworkNamespace

HOST = "host"
CONTAINERS = ("lxc", "docker")  # which have a control group of their own

# What a switch needs of root's rights: its devices and sockets, memory locked and placed by node.
CAPABILITIES = ("net_admin", "net_raw", "ipc_lock", "sys_nice")
TUN = "/dev/net/tun"  # of an internal port in the container's own network


class ContainedHost:
    """The host, except that spawned programs run in containers. `close` removes these."""

    def __init__(self, session: Session, kind: str) -> None:
        self.name = session.host.name
        self.kind = kind
        self._session = session
        self._host: Host = session.host
        self._count = 0
        self._entries: list[int] = []

    def run(
        self,
        args: Sequence[str],
        *,
        timeout_s: float = 30.0,
        check: bool = True,
        input_text: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command on the host: a switch's tools do not run in its container."""
        return self._host.run(
            args, timeout_s=timeout_s, check=check, input_text=input_text, env=env
        )

    def spawn(
        self,
        args: Sequence[str],
        *,
        cores: Sequence[int] | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        netns: str | None = None,
        may: Sequence[str] | None = None,
    ) -> Spawned:
        """Start it in a container of its own, which sees `netns`, or a network without devices.
        What it `may` have is for `netns`; a container has capabilities of its own.

        Raises SwitchmarkError, or TrialFailed with the last words of what did not start."""
        name = f"sm{self._session.id}-sw{self._count}"
        self._count += 1
        if self.kind == "netns":
            own = netns or self._namespace(name)
            return self._host.spawn(args, cores=cores, env=env, log=log, netns=own, may=may)
        inside = Inside(
            name,
            args,
            CAPABILITIES,
            [ShownPath(self._session.run_dir, writable=True)],
            cores or (),
            env,
            [path for path in [Path(TUN)] if path.exists()],
        )
        started = self._lxc if self.kind == "lxc" else self._docker
        return started(inside, log, netns)

    def close(self) -> None:
        """Remove the containers; what runs in them has ended, or is ended. Idempotent."""
        while self._entries:
            self._session.ledger.undo(self._entries.pop())

    def _namespace(self, name: str) -> str:
        self._entries.append(self._session.ledger.record(NetworkNamespace(name)))
        namespaces.create_namespace(name)
        return name

    def _lxc(self, inside: Inside, log: Path | None, netns: str | None) -> Spawned:
        session, record = self._session, self._session.ledger.record
        self._entries.append(record(Directory(str(lxc_root(session, inside.name)))))
        self._entries.append(record(Container(inside.name, str(session.run_dir / "lxc"))))
        return spawn_lxc(session, inside, log, namespaces.NETNS_DIR / netns if netns else None)

    def _docker(self, inside: Inside, log: Path | None, netns: str | None) -> Spawned:
        daemon = docker_daemon.daemon_for(self._session, build_root(find_engine()))
        network = self._network(daemon, f"{inside.name}-net", netns) if netns else "none"
        self._note(inside.name, daemon)
        return spawn_docker(self._session, daemon, inside, log, network)

    def _note(self, container: str, daemon: Daemon) -> None:
        entry = DockerObject("container", container, daemon.host)
        self._entries.append(self._session.ledger.record(entry))

    def _network(self, daemon: Daemon, holder: str, netns: str) -> str:
        """The network of a container that only holds it. Docker joins no namespace of others, so
        the devices go into its own, which takes over the name."""
        self._note(holder, daemon)
        pid = docker_daemon.hold_network(self._session, daemon, holder, HOLD)
        devices = [name for name in all_device_counters(netns) if name != "lo"]
        self._batch(netns, [f"link set dev {device} netns {pid}" for device in devices])
        path = namespaces.NETNS_DIR / netns
        mounts.unmount(path)
        mounts.bind(f"/proc/{pid}/ns/net", path)
        self._batch(netns, [f"link set dev {device} up" for device in devices])
        return f"container:{holder}"

    def _batch(self, netns: str, lines: Sequence[str]) -> None:
        """Run lines of `ip` in a namespace."""
        if lines:
            text = "\n".join(lines) + "\n"
            self._host.run(["ip", "-n", netns, "-batch", "-"], input_text=text)


def contained(session: Session, kind: str) -> Session:
    """The session with which a switch in a container is started."""
    return session if kind == HOST else replace(session, host=ContainedHost(session, kind))


def close(session: Session) -> None:
    """Remove the containers of a session made by `contained`. Idempotent."""
    if isinstance(session.host, ContainedHost):
        session.host.close()


def problem(kind: str) -> str | None:
    """What this machine lacks for such containers; None when nothing. (Imported late: the
    environments know about switches.)"""
    from switchmark.environment.registry import ENVIRONMENTS

    if kind == HOST:
        return None
    found = ENVIRONMENTS[kind]().availability()
    remedy = f"; {found.remedy}" if found.remedy else ""
    if not found.available:
        return f"switch_environment {kind} cannot run here: {found.reason}{remedy}"
    if kind in CONTAINERS and not Path("/usr/bin/taskset").exists():
        return f"switch_environment {kind}: no `taskset` program; apt install util-linux"
    return None
