"""A Docker daemon for containers: the user's daemon, or a private daemon if there is none.

In the user's daemon, only containers and an image with the session's name are added and removed.
The private daemon has its folders in the session, no bridge, no firewall rules and no forwarding,
and it ends with the session.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import SwitchmarkError, UnavailableError
from switchmark.host.containers.confined import docker_least
from switchmark.host.containers.docker_client import WORK_TIMEOUT_S, docker, server_version
from switchmark.host.host import Session
from switchmark.host.kernel.mounts import filesystem_of
from switchmark.host.kernel.procfs import SESSION_VARIABLE, parse_pid
from switchmark.host.process_output import NOTHING, last_line, run_command
from switchmark.host.state import cache_dir, cache_folder
from switchmark.host.undo.entries import CgroupsNamed, Directory, DockerObject, MountsBelow

START_TIMEOUT_S = 60.0
NOT_UNDER_OVERLAY = ("overlay", "nfs", "nfs4", "9p", "ecryptfs")
WITHOUT_NETWORKS = (
    *("--bridge=none", "--iptables=false", "--ip6tables=false"),
    *("--ip-forward=false", "--ip-masq=false", "--userland-proxy=false"),
)
NOT_CONNECTED = "Cannot connect to the Docker daemon"  # printed by the client
DAEMONS = "Error response from daemon: "  # begins the errors that the client passes on
PRIVATE = "SWITCHMARK_DOCKER"  # `private`: never the user's daemon


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running daemon, and the name of the bench's image in it."""

    host: str  # the argument of `docker -H`; empty: the user's daemon
    version: str
    image: str
    client: tuple[str, ...] = ()  # begins the commands of an engine without a daemon
    run_options: tuple[str, ...] = ()  # more options for each container

    def command(self, *args: str) -> list[str]:
        """Return the command line of a `docker` command for this daemon."""
        return [*self.client, *args] if self.client else docker(self.host, *args)


_RUNNING: dict[str, Daemon] = {}  # by session
_PRIVATE_HOSTS: dict[str, str] = {}  # addresses of private daemons, by session


def user_daemon_version() -> str | None:
    """Return the version of the user's daemon; None if there is none, or it may not be used."""
    return None if os.environ.get(PRIVATE) == "private" else server_version()


def daemon_for(session: Session, root: Path) -> Daemon:
    """Return the session's daemon with `root` as an image; the first call starts it.

    Raises UnavailableError."""
    if session.id in _RUNNING:
        return _RUNNING[session.id]
    version = user_daemon_version()
    host = "" if version else _PRIVATE_HOSTS.get(session.id) or _start(session)
    name = f"sm{session.id}:engine"
    daemon = Daemon(host, version or server_version(host) or "unknown", name)
    if not daemon.host:  # In a private daemon, the image ends with the daemon.
        session.ledger.record(DockerObject("image", name, host))
    import_image(session, daemon, root)
    _RUNNING[session.id] = daemon
    return daemon


def _start(session: Session) -> str:
    """Start a private daemon without networks; return its address."""
    host, _ = launch(session, f"sm{session.id}", WITHOUT_NETWORKS)
    _PRIVATE_HOSTS[session.id] = host
    return host


def launch(
    session: Session, name: str, network: Sequence[str], prefix: Sequence[str] = ()
) -> tuple[str, ExitStack]:
    """Start a daemon with these options for networks, by a command that begins with the prefix.
    Return its address, and a stack that ends the daemon and removes its files.

    Everything that it creates is in the ledger, and is removed if it does not start, so that the
    next trial can try again. Raises UnavailableError."""
    ledger = session.ledger
    state, data = session.run_dir / f"docker{name[8:]}", cache_dir() / f"docker-{name}"
    with ExitStack() as undo:
        folders = [entry(str(path)) for path in (data, state) for entry in (Directory, MountsBelow)]
        for entry in (*folders, CgroupsNamed(name)):
            undo.callback(ledger.undo, ledger.record(entry))
        state.mkdir(mode=0o700)
        cache_folder(data.name)
        config = state / "daemon.json"
        config.write_text("{}")  # The user's configuration could contradict the options.
        host, log = f"unix://{state}/d.sock", state / "log"
        process = session.host.spawn(
            [
                *prefix,
                "dockerd",
                *("--host", host, "--config-file", str(config)),
                *("--data-root", str(data), "--exec-root", str(state / "x")),
                *("--pidfile", str(state / "pid"), "--storage-driver", _storage_driver(data)),
                *network,
                *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{name}"),
            ],
            env={"TMPDIR": str(state)},  # A containerd that hangs writes its stack traces there.
            log=log,
        )
        undo.callback(process.terminate)
        deadline = time.monotonic() + START_TIMEOUT_S
        while server_version(host) is None:
            ended = process.poll() is not None
            if ended or time.monotonic() > deadline:
                reason = last_line(log.read_text(errors="replace"), NOTHING)
                how = "" if ended else f" within {START_TIMEOUT_S:g} s"
                raise UnavailableError(
                    f"docker: the private daemon did not start{how}: {reason}",
                    remedy="correct the cause, or reinstall docker.io",
                )
            time.sleep(0.05)
        return host, undo.pop_all()


def _storage_driver(data: Path) -> str:
    """Return the storage driver for this folder.

    With overlay2, layers share files. The kernel cannot overlay directories on an overlay or on a
    network file system; there vfs copies each layer."""
    has_overlay = "\toverlay\n" in Path("/proc/filesystems").read_text()
    return "overlay2" if has_overlay and filesystem_of(data) not in NOT_UNDER_OVERLAY else "vfs"


def import_image(session: Session, daemon: Daemon, root: Path) -> None:
    """Make a root directory the image of the bench in a daemon. Raises UnavailableError."""
    tar = ["tar", "-C", str(root), "--numeric-owner", "-c", "."]
    # The variable identifies the processes if the bench is killed.
    environment = {**os.environ, SESSION_VARIABLE: session.id}
    archive = subprocess.Popen(tar, stdout=subprocess.PIPE, env=environment)
    try:
        with archive:
            command = daemon.command("import", "-", daemon.image)
            done = run_command(command, WORK_TIMEOUT_S, archive.stdout, env=environment)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"docker import: did not end in {WORK_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        raise UnavailableError(f"docker import: {last_line(done.stderr, NOTHING)}")
    if archive.returncode != 0:
        raise UnavailableError(f"docker import: tar read only part of {root}")


def run_docker(session: Session, daemon: Daemon, *args: str) -> str:
    """Return the output of a `docker` command. Raises UnavailableError with its last lines."""
    try:
        return session.host.run(daemon.command(*args), timeout_s=WORK_TIMEOUT_S).stdout.strip()
    except SwitchmarkError as error:
        if NOT_CONNECTED in str(error):
            raise UnavailableError(
                f"docker {args[0]}: the daemon at {daemon.host or 'its usual socket'} has ended, "
                "or its socket is gone",
                remedy="repeat the trial" if daemon.host else "start the daemon",
            ) from None
        program = "podman" if daemon.client else "docker"
        for begin in (DAEMONS, "exit code "):  # a long command line comes before it
            _, found, text = str(error).partition(begin)
            if found:
                raise UnavailableError(f"{program} {args[0]}: {found}{text}") from None
        raise UnavailableError(str(error)) from None


def hold_network(
    session: Session,
    daemon: Daemon,
    name: str,
    idle: Sequence[str],
    network: Sequence[str] = ("--network", "none"),
) -> int:
    """Start a container whose only purpose is its network namespace, by default without devices.

    It runs `idle`, a command of the image. The caller has recorded its name in the ledger. Returns
    its PID. Raises UnavailableError."""
    run_docker(
        session, daemon,
        *("run", "-d", "--name", name, *docker_least(run_mib=1), *daemon.run_options, *network),
        *([] if "host" in network else _no_ipv6()),
        *("-e", f"{SESSION_VARIABLE}={session.id}", daemon.image, *idle),
    )  # fmt: skip
    if (
        pid := parse_pid(run_docker(session, daemon, "inspect", "-f", "{{.State.Pid}}", name))
    ) is None:
        raise UnavailableError(f"docker: container {name} has no process")
    return pid


def _no_ipv6() -> list[str]:
    """Return the options that switch IPv6 off, so that the kernel sends no frames.

    A kernel without IPv6 needs none."""
    if not Path("/proc/sys/net/ipv6").exists():
        return []
    keys = ("all", "default")
    return [text for key in keys for text in ("--sysctl", f"net.ipv6.conf.{key}.disable_ipv6=1")]
