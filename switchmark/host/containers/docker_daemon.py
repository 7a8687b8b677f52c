"""A Docker daemon to run containers in: the user's, if there is one, else one of our own.

In the user's daemon only containers and an image that bear the session's name are added and removed
again. Our own lives in folders of the session, with no bridge, no firewall rule, no forwarding, and
ends with it.
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
from switchmark.host.kernel.procfs import SESSION_VARIABLE, told_pid
from switchmark.host.process_output import NOTHING, last_line, run_command
from switchmark.host.state import cache_dir, cache_folder
from switchmark.host.undo.entries import CgroupsNamed, Directory, DockerObject, MountsBelow

START_TIMEOUT_S = 60.0
NOT_UNDER_OVERLAY = ("overlay", "nfs", "nfs4", "9p", "ecryptfs")
PRIVATE = "SWITCHMARK_DOCKER"  # `private`: never the user's daemon


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running daemon, and the name of our root image in it."""

    host: str  # as `docker -H` takes it; empty: the user's
    version: str
    image: str

    def command(self, *args: str) -> list[str]:
        """The command line of a `docker` command for this daemon."""
        return docker(self.host, *args)


_RUNNING: dict[str, Daemon] = {}  # by session
_OUR_OWN: dict[str, str] = {}  # their addresses, by session


def users_own() -> str | None:
    """The version of the user's daemon; None where there is none, or it may not be used."""
    return None if os.environ.get(PRIVATE) == "private" else server_version()


def daemon_for(session: Session, root: Path) -> Daemon:
    """The session's daemon with `root` as an image, started at its first use.

    Raises UnavailableError."""
    found = _RUNNING.get(session.id)
    if found is not None:
        return found
    version = users_own()
    host = "" if version else _OUR_OWN.get(session.id) or _start(session)
    name = f"sm{session.id}:engine"
    daemon = Daemon(host, version or server_version(host) or "unknown", name)
    if not daemon.host:  # one of our own takes it along
        session.ledger.record(DockerObject("image", name, host))
    _import(session, daemon, root)
    _RUNNING[session.id] = daemon
    return daemon


def _start(session: Session) -> str:
    """Start a private daemon; returns its address. Everything it makes is in the ledger, and
    removed where it does not start, so that the next trial can try anew."""
    ledger, name = session.ledger, f"sm{session.id}"
    state, data = session.run_dir / "docker", cache_dir() / f"docker-{name}"
    with ExitStack() as undo:
        folders = [thing(str(one)) for one in (data, state) for thing in (Directory, MountsBelow)]
        for thing in (*folders, CgroupsNamed(name)):
            undo.callback(ledger.undo, ledger.record(thing))
        state.mkdir(mode=0o700)
        cache_folder(data.name)
        config = state / "daemon.json"
        config.write_text("{}")  # not the user's, which may contradict the options
        host, log = f"unix://{state}/d.sock", state / "log"
        process = session.host.spawn(
            [
                "dockerd",
                *("--host", host, "--config-file", str(config)),
                *("--data-root", str(data), "--exec-root", str(state / "x")),
                *("--pidfile", str(state / "pid"), "--storage-driver", _storage_driver(data)),
                *("--bridge=none", "--iptables=false", "--ip6tables=false"),
                *("--ip-forward=false", "--ip-masq=false", "--userland-proxy=false"),
                *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{name}"),
            ],
            env={"TMPDIR": str(state)},  # where its containerd, when it hangs, says in what
            log=log,
        )
        undo.callback(process.terminate)
        deadline = time.monotonic() + START_TIMEOUT_S
        while server_version(host) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                words = last_line(log.read_text(errors="replace"), NOTHING)
                raise UnavailableError(f"docker: a daemon of our own did not start: {words}")
            time.sleep(0.05)
        undo.pop_all()
    _OUR_OWN[session.id] = host
    return host


def _storage_driver(data: Path) -> str:
    """The storage driver. Layers share files where the kernel can overlay directories there (not on
    an overlay, nor on another machine's file system); else they are copies."""
    can = "\toverlay\n" in Path("/proc/filesystems").read_text()
    return "overlay2" if can and filesystem_of(data) not in NOT_UNDER_OVERLAY else "vfs"


def _import(session: Session, daemon: Daemon, root: Path) -> None:
    tar = ["tar", "-C", str(root), "--numeric-owner", "-c", "."]
    marked = {**os.environ, SESSION_VARIABLE: session.id}  # found again where the bench is killed
    archive = subprocess.Popen(tar, stdout=subprocess.PIPE, env=marked)
    try:
        with archive:
            command = daemon.command("import", "-", daemon.image)
            done = run_command(command, WORK_TIMEOUT_S, archive.stdout, env=marked)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"docker import: not done in {WORK_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        raise UnavailableError(f"docker import: {last_line(done.stderr, NOTHING)}")
    if archive.returncode != 0:
        raise UnavailableError(f"docker import: tar read only part of {root}")


def ask(session: Session, daemon: Daemon, *args: str) -> str:
    """The output of a `docker` command. Raises UnavailableError with its last words."""
    try:
        return session.host.run(daemon.command(*args), timeout_s=WORK_TIMEOUT_S).stdout.strip()
    except SwitchmarkError as error:
        raise UnavailableError(str(error)) from None


def hold_network(session: Session, daemon: Daemon, name: str, idle: Sequence[str]) -> int:
    """Start a container that only holds a network without devices, and does no more than `idle`, a
    command of the image; its process id. The caller has noted its name. Raises UnavailableError."""
    ask(
        session, daemon,
        *("run", "-d", "--name", name, *docker_least(run_mib=1), "--network", "none"),
        *_no_ipv6(),
        *("-e", f"{SESSION_VARIABLE}={session.id}", daemon.image, *idle),
    )  # fmt: skip
    if (pid := told_pid(ask(session, daemon, "inspect", "-f", "{{.State.Pid}}", name))) is None:
        raise UnavailableError(f"docker: container {name} has no process")
    return pid


def _no_ipv6() -> list[str]:
    """The options that switch IPv6 off: no frames of the kernel's own. A kernel without IPv6 needs
    none."""
    if not Path("/proc/sys/net/ipv6").exists():
        return []
    keys = ("all", "default")
    return [w for key in keys for w in ("--sysctl", f"net.ipv6.conf.{key}.disable_ipv6=1")]
