"""Runs a program of the host, a switch or a user's VNF, in its own LXC or Docker container.

The container has the host's /usr, the program's folder and some other paths, read-only and at the
same paths unless another path is given. It has nothing else of the host.
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
from switchmark.host.kernel.procfs import SESSION_VARIABLE, parse_pid
from switchmark.host.process_output import NOTHING, last_line

PATH_INSIDE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_TIMEOUT_S = 60.0
SHARED_MIB = 256  # size of /dev/shm, by which VPP communicates with its tools
_POLL_S = 0.005
_SYSTEM = ("/usr", "/etc/alternatives", "/etc/ld.so.cache")
NAMES_OF_USERS = (Path("/etc/passwd"), Path("/etc/group"))  # servers look up the name of root


@dataclass(frozen=True, slots=True)
class ShownPath:
    """A path of the host that is mounted in the container."""

    path: Path
    writable: bool = False
    inside: Path | None = None  # None: the same path

    @property
    def place(self) -> Path:
        """The path inside the container."""
        return self.inside or self.path


@dataclass(frozen=True, slots=True)
class Inside:
    """A program to run, and the contents of its container."""

    name: str  # name of the container
    args: Sequence[str]
    linux_capabilities: Sequence[str]  # capabilities in lower case, without prefix
    shown: Sequence[ShownPath]  # in addition to /usr and the folder of the program
    cores: Sequence[int] = ()  # empty: all
    env: Mapping[str, str] | None = None
    devices: Sequence[Path] = ()
    run_mib: int = 16  # size of /run

    def environment(self, session: Session) -> dict[str, str]:
        """Return the program's environment variables; a container starts without any."""
        basic = {SESSION_VARIABLE: session.id, "LC_ALL": "C", "PATH": PATH_INSIDE}
        return {**basic, **(self.env or {})}

    def command(self) -> list[str]:
        """Return the command line, which also pins the program.

        A container starts on the cores of its control group."""
        cores = ",".join(map(str, sorted(self.cores)))
        return [*(["/usr/bin/taskset", "-c", cores] if cores else []), *self.args]

    def everything(self) -> list[ShownPath]:
        """Return all paths of the host that are mounted in the container."""
        programs = (Path(shutil.which(arg) or arg) for arg in self.args if "/" in arg)
        files = [path for path in programs if path.is_absolute() and path.is_file()]
        targets = {target for path in files for target in (path, path.resolve())}
        needed = {folder for target in targets for folder in _program_folders(target)}
        shown = [Path("/usr"), *(path.path for path in self.shown)]
        folders = [
            folder
            for folder in sorted(needed)
            if not any(folder.is_relative_to(path) for path in shown)
        ]
        system = [ShownPath(Path(path)) for path in _SYSTEM if Path(path).exists()]
        return [*system, *map(ShownPath, folders), *self.shown]


class Contained:
    """A spawned program in a container."""

    def __init__(self, outer: Spawned, query: Callable[[], int | None]) -> None:
        """`outer`: the command that starts the container; `query` returns the PID of the program,
        or None before the program has started."""
        self._outer, self._query = outer, query
        self._pid: int | None = None
        self.write_line, self.close_input = outer.write_line, outer.close_input
        self.read_line, self.stderr_tail = outer.read_line, outer.stderr_tail
        self.poll, self.wait = outer.poll, outer.wait

    @property
    def pid(self) -> int:
        """The PID of the program; before the program has started, that of the command that starts
        the container."""
        return self.started() or self._outer.pid

    def started(self) -> int | None:
        """Return the PID of the program; None if the program has not started yet."""
        if self._pid is None:
            self._pid = self._query()
        return self._pid

    def terminate(self, grace_s: float = 2.0) -> int:
        """Send SIGTERM to the program itself, then end it like any other process."""
        if self._outer.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                return self._outer.wait(grace_s)
        return self._outer.terminate(grace_s)


def sockets_shown(socket: Path | None, inside: str) -> list[ShownPath]:
    """Return the folder of a node's sockets, mounted at `inside`; empty for a node with devices."""
    return [ShownPath(socket.parent, True, Path(inside))] if socket is not None else []


def lxc_root(session: Session, name: str) -> Path:
    """Return the path of the root of an LXC container, which the ledger must have before it."""
    return session.run_dir / f"{name}-root"


def spawn_lxc(
    session: Session, inside: Inside, log: Path | None = None, netns: Path | None = None
) -> Contained:
    """Start a program in an LXC container in this network (None: without devices).

    The ledger must have the container's name and root. Raises TrialFailed with the last lines of
    the program that did not start."""
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
        f"lxc.mount.entry = {path.path} {str(path.place)[1:]} none "
        f"bind,{'rw' if path.writable else 'ro'},"
        f"create={'dir' if path.path.is_dir() else 'file'} 0 0\n"
        for path in shown
    )
    (folder / "config").write_text(config)
    variables = [f"{key}={value}" for key, value in inside.environment(session).items()]
    at = ["-P", str(lxcpath), "-n", inside.name]
    start = ["lxc-execute", *at, "--", "/usr/bin/env", *variables, *inside.command()]
    outer = host.spawn(start, log=log, container=inside.name)

    return _started(outer, inside.name, lambda: pid_in_lxc(host, lxcpath, inside.name))


def pid_in_lxc(host: Host, lxcpath: Path, name: str) -> int | None:
    """Return the PID of the program in an LXC container, the only child of the container's init
    process; None before the program has started."""
    init = _query_pid(host, ["lxc-info", "-P", str(lxcpath), "-n", name, "-p", "-H"])
    return _only_child(init) if init else None


def spawn_docker(
    session: Session,
    daemon: Daemon,
    inside: Inside,
    log: Path | None = None,
    network: str = "none",
    options: Sequence[str] = (),
) -> Contained:
    """Start a program in a Docker container, with more options; the ledger must have the
    container's name.

    Raises TrialFailed with the last lines of the program that did not start."""
    args = ["run", "-i", "--rm", "--name", inside.name, "--network", network, *options]
    args += [*docker_least(inside.run_mib), *DOCKER_SCRATCH, "--shm-size", f"{SHARED_MIB}m"]
    args += docker_capabilities(inside.linux_capabilities)
    args += [text for path in inside.devices for text in ("--device", str(path))]
    for path in inside.everything():
        args += ["-v", f"{path.path}:{path.place}{'' if path.writable else ':ro'}"]
    for key, value in inside.environment(session).items():
        args += ["-e", f"{key}={value}"]
    command = daemon.command(*args, daemon.image, *inside.command())
    outer = session.host.spawn(command, log=log, container=inside.name)
    return _started(outer, inside.name, lambda: pid_in_docker(session.host, daemon, inside.name))


def pid_in_docker(host: Host, daemon: Daemon, name: str) -> int | None:
    """Return the PID of the program in a Docker container; None before the program has started."""
    return _query_pid(host, daemon.command("inspect", "-f", "{{.State.Pid}}", name))


def _program_folders(program: Path) -> list[Path]:
    """Return the folder of a program, and the folders `lib*` beside a folder `bin`.

    Other folders beside it, such as a user's home, are not mounted."""
    folder = program.parent
    libraries = folder.parent.glob("lib*") if folder.name == "bin" else ()
    return [folder, *(library for library in libraries if library.is_dir())]


def _make_root(root: Path, shown: Sequence[ShownPath]) -> None:
    """Create an empty root file system with the mount points."""
    root.mkdir(mode=0o700)
    for folder in ("dev", "proc", "sys", "run", "tmp", "etc", "usr", "var"):
        (root / folder).mkdir()
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "var/run").symlink_to("../run")
    for path in shown:
        place = root / str(path.place)[1:]
        if path.path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()


def _query_pid(host: Host, query: Sequence[str]) -> int | None:
    done = host.run(query, check=False)
    return parse_pid(done.stdout) if done.exit_code == 0 else None


def _only_child(pid: int) -> int | None:
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None
    return None


def _started(outer: Spawned, name: str, query: Callable[[], int | None]) -> Contained:
    """Return the program once it has started, or has already ended without an error. Raises
    TrialFailed."""
    program = Contained(outer, query)
    deadline = time.monotonic() + START_TIMEOUT_S
    while program.started() is None:
        if (code := outer.poll()) == 0:
            break
        if code is not None:
            reason = last_line(outer.stderr_tail(), NOTHING)
            raise TrialFailed(f"container {name} ended with exit code {code}: {reason}")
        if time.monotonic() > deadline:
            raise TrialFailed(f"container {name}: did not start in {START_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)
    return program
