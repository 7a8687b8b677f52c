"""A program of the host's in an LXC or Docker container of its own: a switch, or a user's VNF.

The container sees the host's /usr, the program's own folder and some other paths read-only, each
under the path that it has on the host unless another is given; nothing else of the host.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.host.containers.confined import (
    DOCKER_SCRATCH,
    docker_capabilities,
    docker_least,
    lxc_config,
    lxc_network,
)
from switchmark.host.containers.docker_daemon import Daemon
from switchmark.host.host import Host, Session, Spawned
from switchmark.host.kernel.procfs import SESSION_VARIABLE, told_pid
from switchmark.host.process_output import NOTHING, last_line

PATH_INSIDE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_TIMEOUT_S = 60.0
SHARED_MIB = 256  # of /dev/shm, which some programs speak through (VPP with its tools)
_POLL_S = 0.005
_SYSTEM = ("/usr", "/etc/alternatives", "/etc/ld.so.cache")


@dataclass(frozen=True, slots=True)
class ShownPath:
    """A path of the host's that the container sees."""

    path: Path
    writable: bool = False
    inside: Path | None = None  # None: under the same name

    @property
    def place(self) -> Path:
        """The path inside the container."""
        return self.inside or self.path


@dataclass(frozen=True, slots=True)
class Inside:
    """A program to run, and everything that its container has."""

    name: str  # of the container
    args: Sequence[str]
    linux_capabilities: Sequence[str]  # capabilities in lower case, without prefix
    shown: Sequence[ShownPath]  # beside /usr and the program's own folder
    cores: Sequence[int] = ()  # none: all
    env: Mapping[str, str] | None = None
    devices: Sequence[Path] = ()
    run_mib: int = 16  # size of /run

    def environment(self, session: Session) -> dict[str, str]:
        """The program's environment variables; a container begins with none."""
        own = {SESSION_VARIABLE: session.id, "LC_ALL": "C", "PATH": PATH_INSIDE}
        return {**own, **(self.env or {})}

    def command(self) -> list[str]:
        """The command line that also pins the program: a container begins with the cores of its
        control group."""
        cores = ",".join(map(str, sorted(self.cores)))
        return [*(["/usr/bin/taskset", "-c", cores] if cores else []), *self.args]

    def everything(self) -> list[ShownPath]:
        """All paths of the host that the container sees."""
        programs = (Path(shutil.which(word) or word) for word in self.args if "/" in word)
        found = [path for path in programs if path.is_absolute() and path.is_file()]
        own = {folder for path in found for one in (path, path.resolve()) for folder in _of(one)}
        known = [Path("/usr"), *(one.path for one in self.shown)]
        folders = [
            path for path in sorted(own) if not any(path.is_relative_to(one) for one in known)
        ]
        system = [ShownPath(Path(path)) for path in _SYSTEM if Path(path).exists()]
        return [*system, *map(ShownPath, folders), *self.shown]


class Contained:
    """A spawned program; `pid` is that of the program itself, not of what started it."""

    def __init__(self, outer: Spawned, pid: int) -> None:
        self._outer = outer
        self.pid = pid
        self.write_line, self.close_input = outer.write_line, outer.close_input
        self.read_line, self.stderr_tail = outer.read_line, outer.stderr_tail
        self.poll, self.wait = outer.poll, outer.wait

    def terminate(self, grace_s: float = 2.0) -> int:
        """Send SIGTERM to the program itself, then end it as any other."""
        if self._outer.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                return self._outer.wait(grace_s)
        return self._outer.terminate(grace_s)


def sockets_shown(socket: Path | None, inside: str) -> list[ShownPath]:
    """The folder of a node's sockets as the node sees it; None for a node with devices."""
    return [ShownPath(socket.parent, True, Path(inside))] if socket is not None else []


def lxc_root(session: Session, name: str) -> Path:
    """The place of the root of such an LXC container, to be recorded before it is made."""
    return session.run_dir / f"{name}-root"


def spawn_lxc(
    session: Session, inside: Inside, log: Path | None = None, netns: Path | None = None
) -> Contained:
    """Start it in an LXC container in this network (None: one without devices). The container's
    name and root are in the ledger. Raises TrialFailed with the last words of what did not
    start."""
    lxcpath, root = session.run_dir / "lxc", lxc_root(session, inside.name)
    folder, host = lxcpath / inside.name, session.host
    shown = [*inside.everything(), *(ShownPath(path, True) for path in inside.devices)]
    _make_root(root, shown)
    lxcpath.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)
    config = lxc_config(
        inside.name,
        root,
        folder / "log",
        network=lxc_network(netns),
        linux_capabilities=inside.linux_capabilities,
        run_mib=inside.run_mib,
    )
    config += (
        "lxc.mount.entry = tmpfs dev/shm tmpfs "
        f"rw,nosuid,nodev,noexec,mode=1777,size={SHARED_MIB}m,create=dir 0 0\n"
    )
    config += "".join(
        f"lxc.mount.entry = {one.path} {str(one.place)[1:]} none "
        f"bind,{'rw' if one.writable else 'ro'},"
        f"create={'dir' if one.path.is_dir() else 'file'} 0 0\n"
        for one in shown
    )
    (folder / "config").write_text(config)
    words = [f"{key}={value}" for key, value in inside.environment(session).items()]
    at = ["-P", str(lxcpath), "-n", inside.name]
    start = ["lxc-execute", *at, "--", "/usr/bin/env", *words, *inside.command()]
    outer = host.spawn(start, log=log)

    def program() -> int | None:
        """The only child of the container's init."""
        init = _number(host, ["lxc-info", *at, "-p", "-H"])
        return _only_child(init) if init else None

    return Contained(outer, _wait(outer, inside.name, program))


def spawn_docker(
    session: Session,
    daemon: Daemon,
    inside: Inside,
    log: Path | None = None,
    network: str = "none",
) -> Contained:
    """Start it in a Docker container, whose name is in the ledger. Raises TrialFailed with the last
    words of what did not start."""
    words = ["run", "-i", "--rm", "--name", inside.name, "--network", network]
    words += [*docker_least(inside.run_mib), *DOCKER_SCRATCH, "--shm-size", f"{SHARED_MIB}m"]
    words += docker_capabilities(inside.linux_capabilities)
    words += [word for path in inside.devices for word in ("--device", str(path))]
    for one in inside.everything():
        words += ["-v", f"{one.path}:{one.place}{'' if one.writable else ':ro'}"]
    for key, value in inside.environment(session).items():
        words += ["-e", f"{key}={value}"]
    outer = session.host.spawn(daemon.command(*words, daemon.image, *inside.command()), log=log)
    ask = daemon.command("inspect", "-f", "{{.State.Pid}}", inside.name)
    return Contained(outer, _wait(outer, inside.name, lambda: _number(session.host, ask)))


def _of(program: Path) -> list[Path]:
    """The folder of a program, and beside a folder `bin` those of its libraries; nothing else of
    what lies there, such as a user's home."""
    folder = program.parent
    libraries = folder.parent.glob("lib*") if folder.name == "bin" else ()
    return [folder, *(one for one in libraries if one.is_dir())]


def _make_root(root: Path, shown: Sequence[ShownPath]) -> None:
    """Make an empty root with the places where things are mounted."""
    root.mkdir(mode=0o700)
    for folder in ("dev", "proc", "sys", "run", "tmp", "etc", "usr", "var"):
        (root / folder).mkdir()
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "var/run").symlink_to("../run")
    for one in shown:
        place = root / str(one.place)[1:]
        if one.path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()


def _number(host: Host, ask: Sequence[str]) -> int | None:
    done = host.run(ask, check=False)
    return told_pid(done.stdout) if done.exit_code == 0 else None


def _only_child(pid: int) -> int | None:
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None
    return None


def _wait(outer: Spawned, name: str, look: Callable[[], int | None]) -> int:
    """The program's process id, once it has one."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (pid := look()) is None:
        if (code := outer.poll()) is not None:
            words = last_line(outer.stderr_tail(), NOTHING)
            raise TrialFailed(f"container {name} ended with exit code {code}: {words}")
        if time.monotonic() > deadline:
            raise TrialFailed(f"container {name}: not started in {START_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)
    return pid
