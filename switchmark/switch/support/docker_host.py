"""Private hosts with a Docker daemon, or with Podman, which trials of a session share.

The start of a daemon takes seconds. So a session keeps one host for each set of options of the
daemon. Before each trial, the host forgets connections and neighbours of the trial before. Its
objects are in the ledger of the session, which ends the daemon and removes them.
"""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.engine.binary import find_engine
from switchmark.environment.support.rootfs import build_root
from switchmark.host.container_networks.private_host import PrivateHost
from switchmark.host.containers import docker_daemon, podman
from switchmark.host.containers.docker_client import server_version
from switchmark.host.containers.docker_daemon import Daemon
from switchmark.host.host import Session
from switchmark.host.kernel import namespaces
from switchmark.host.undo.entries import Directory, NetworkNamespace
from switchmark.switch.support.network import Host, end_processes_in, silence_multicast
from switchmark.switch.support.private import Namespace

PODMAN = ("podman",)  # in the place of the options of a daemon
_NETLINK_NETFILTER = 12
_CT_DELETE = 0x0102  # subsystem ctnetlink, message IPCTNL_MSG_CT_DELETE
_REQUEST_WITH_ACK = 0x05


@dataclass(frozen=True, slots=True)
class DockerHost:
    """A network namespace that plays the host, its folder, and the daemon in it."""

    netns: str
    folder: Path
    daemon: Daemon
    undo: ExitStack
    private_host: PrivateHost | None = None  # stays open for Podman, whose mounts are in it

    def is_alive(self) -> bool:
        """Return True if the daemon answers. Podman has none."""
        return self.private_host is not None or server_version(self.daemon.host) is not None


# By session, options of the daemon, and number of the host in a network of several.
_HOSTS: dict[tuple[str, tuple[str, ...], int], DockerHost] = {}


def docker_host(session: Session, options: tuple[str, ...], number: int = 0) -> DockerHost:
    """Return the session's host of this number whose daemon has these options; the first call makes
    it, and so does a call after the daemon died. Raises UnavailableError."""
    key = session.id, options, number
    host = _HOSTS.get(key)
    if host is not None and not host.is_alive():
        _HOSTS.pop(key).undo.close()
        host = None
    if host is None:
        host = _HOSTS[key] = _make(session, options)
    namespaces.inside(host.netns, _forget_connections)
    clear = ["ip", "-n", host.netns, "neigh", "flush", "nud", "all"]
    session.host.run(clear, check=False)
    return host


def end_docker_host(session: Session, daemon: Daemon) -> None:
    """End a daemon and remove its host, so that the next trial makes a new one."""
    for key in [key for key, host in _HOSTS.items() if key[0] == session.id]:
        if _HOSTS[key].daemon == daemon:
            _HOSTS.pop(key).undo.close()


def _make(session: Session, options: tuple[str, ...]) -> DockerHost:
    names = {host.netns for (owner, _, _), host in _HOSTS.items() if owner == session.id}
    number = next(n for n in range(len(names) + 1) if f"sm{session.id}dh{n}" not in names)
    name, ledger = f"sm{session.id}dh{number}", session.ledger
    with ExitStack() as undo:
        undo.callback(ledger.undo, ledger.record(NetworkNamespace(name)))
        namespaces.create_namespace(name)
        undo.callback(end_processes_in, session.id, name)
        namespaces.inside(name, silence_multicast)
        folder = session.run_dir / name
        undo.callback(ledger.undo, ledger.record(Directory(str(folder))))
        folder.mkdir(mode=0o700)
        image = f"sm{session.id}:network"
        if options == PODMAN:
            return _with_podman(session, name, folder, image, undo)
        private_host = PrivateHost(name, folder, read_only=False)
        try:
            prefix = _entering(name, private_host)
            # The name of the session begins it: the ledger requires that.
            address, started = docker_daemon.launch(session, f"{name}net", options, prefix)
        finally:
            private_host.close()
        undo.callback(started.close)
        daemon = Daemon(address, server_version(address) or "unknown", image)
        docker_daemon.import_image(session, daemon, build_root(find_engine()))
        return DockerHost(name, folder, daemon, undo.pop_all())


def _entering(netns: str, private_host: PrivateHost) -> tuple[str, ...]:
    """Return the beginning of commands that run in a private host."""
    return (
        "nsenter",
        f"--net={namespaces.NETNS_DIR / netns}",
        f"--mount={private_host.mounts_path()}",
        "--",
    )


def _with_podman(
    session: Session, name: str, folder: Path, image: str, undo: ExitStack
) -> DockerHost:
    private_host = PrivateHost(name, folder, read_only=False, empty_run=True)
    undo.callback(private_host.close)
    prefix = _entering(name, private_host)
    daemon, started = podman.prepare(session, f"{name}net", folder / "run", prefix, image)
    undo.callback(started.close)
    docker_daemon.import_image(session, daemon, build_root(find_engine()))
    return DockerHost(name, folder, daemon, undo.pop_all(), private_host)


def open_host(session: Session, host: DockerHost) -> Host:
    """Return the means by which one trial uses a host."""
    private = PrivateHost(
        host.netns, host.folder, read_only=False, empty_run=host.private_host is not None
    )
    return Host(Namespace(session, host.netns), private)


def _forget_connections() -> None:
    """Delete the entries of connection tracking in this thread's namespace, as `conntrack -F`.

    A kernel without connection tracking has none."""
    with (
        suppress(OSError),
        socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER
        ) as netlink,
    ):
        netlink.settimeout(10.0)
        family_version_resource = struct.pack("=BBH", 0, 0, 0)
        length = 16 + len(family_version_resource)
        header = struct.pack("=IHHII", length, _CT_DELETE, _REQUEST_WITH_ACK, 1, 0)
        netlink.send(header + family_version_resource)
        netlink.recv(4096)  # the acknowledgement, after all entries are gone
