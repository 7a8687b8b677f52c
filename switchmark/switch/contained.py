"""A switch inside a container: a host whose spawned programs run in containers of their own.

A switch under test starts its programs through its session's host. Given this one in its place,
it starts them in an LXC or Docker container each, and otherwise works as it does on the host: its
tools reach it by the sockets in the session's folder, which the container sees under the same
path, as it sees the host's /usr, read-only. `netns` sets nothing apart but the network.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from switchmark.environment.engine_binary import find_engine
from switchmark.environment.rootfs import build_root
from switchmark.errors import TrialFailed
from switchmark.testbed import docker_daemon, mounts, netlink
from switchmark.testbed.confined import (
    DOCKER_SCRATCH,
    docker_least,
    docker_powers,
    lxc_config,
    lxc_network,
)
from switchmark.testbed.host import Completed, Host, Session, Spawned
from switchmark.testbed.procfs import SESSION_VARIABLE
from switchmark.testbed.things import Container, Directory, DockerThing, NetworkNamespace

HOST = "host"
CONTAINERS = ("lxc", "docker")  # which have a control group of their own
PATH_INSIDE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_TIMEOUT_S = 60.0
_POLL_S = 0.005

# Root's powers that a switch needs: its devices and sockets, memory locked and placed by node.
CAPABILITIES = ("net_admin", "net_raw", "ipc_lock", "sys_nice")
TUN = "/dev/net/tun"  # of an internal port in the container's own network
RUN_MIB = 16  # of /run


@dataclass(frozen=True, slots=True)
class _Shown:
    """A path of the host's that the container sees under the same name."""

    path: Path
    writable: bool = False


class Contained:
    """A spawned program whose `pid` is that of the program itself, not of what started it."""

    def __init__(self, outer: Spawned, pid: int) -> None:
        self._outer = outer
        self.pid = pid

    def write_line(self, line: str) -> None:
        """See `Spawned`."""
        self._outer.write_line(line)

    def close_input(self) -> None:
        """See `Spawned`."""
        self._outer.close_input()

    def read_line(self, timeout_s: float) -> str | None:
        """See `Spawned`."""
        return self._outer.read_line(timeout_s)

    def poll(self) -> int | None:
        """See `Spawned`."""
        return self._outer.poll()

    def wait(self, timeout_s: float) -> int:
        """See `Spawned`."""
        return self._outer.wait(timeout_s)

    def terminate(self, grace_s: float = 2.0) -> int:
        """SIGTERM to the program itself, then as for any other."""
        if self._outer.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                return self._outer.wait(grace_s)
        return self._outer.terminate(grace_s)

    def stderr_tail(self) -> str:
        """See `Spawned`."""
        return self._outer.stderr_tail()


class ContainedHost:
    """The host, but programs that are spawned run in containers. `close` removes these."""

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
        """On the host: tools of a switch are no part of it."""
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
    ) -> Spawned:
        """Start it in a container of its own, which sees `netns`, or a network without devices.

        Raises SwitchmarkError, or TrialFailed with the last words of what did not start."""
        name = f"sm{self._session.id}-sw{self._count}"
        self._count += 1
        if self.kind == "netns":
            own = netns or self._namespace(name)
            return self._host.spawn(args, cores=cores, env=env, log=log, netns=own)
        started = self._lxc if self.kind == "lxc" else self._docker
        return started(name, args, sorted(cores or []), dict(env or {}), log, netns)

    def close(self) -> None:
        """Remove the containers; what runs in them has ended, or is ended. Idempotent."""
        while self._entries:
            self._session.ledger.undo(self._entries.pop())

    def _namespace(self, name: str) -> str:
        self._entries.append(self._session.ledger.record(NetworkNamespace(name)))
        netlink.create_namespace(name)
        return name

    def _lxc(
        self, name: str, args: Sequence[str], cores: Sequence[int], env: Mapping[str, str],
        log: Path | None, netns: str | None,
    ) -> Spawned:  # fmt: skip
        lxcpath, root = self._session.run_dir / "lxc", self._session.run_dir / f"{name}-root"
        self._entries.append(self._session.ledger.record(Directory(str(root))))
        self._entries.append(self._session.ledger.record(Container(name, str(lxcpath))))
        shown = self._shown(args)
        _make_root(root, shown)
        folder = lxcpath / name
        folder.mkdir(parents=True)
        config = lxc_config(
            name,
            root,
            folder / "log",
            network=lxc_network(netlink.NETNS_DIR / netns if netns else None),
            powers=CAPABILITIES,
            run_mib=RUN_MIB,
        )
        entries = [*shown, *([_Shown(Path(TUN), True)] if Path(TUN).exists() else [])]
        config += "".join(
            f"lxc.mount.entry = {one.path} {str(one.path)[1:]} none "
            f"bind,{'rw' if one.writable else 'ro'},"
            f"create={'dir' if one.path.is_dir() else 'file'} 0 0\n"
            for one in entries
        )
        (folder / "config").write_text(config)
        words = [f"{key}={value}" for key, value in self._environment(env).items()]
        inner = [*_pinned(cores), "/usr/bin/env", *words, *args]
        outer = self._host.spawn(
            ["lxc-execute", "-P", str(lxcpath), "-n", name, "--", *inner], log=log
        )
        ask = ["lxc-info", "-P", str(lxcpath), "-n", name, "-p", "-H"]

        def program() -> int | None:
            """The only child of the container's init."""
            init = self._number(ask)
            return _only_child(init) if init else None

        return Contained(outer, self._wait(outer, name, program))

    def _docker(
        self, name: str, args: Sequence[str], cores: Sequence[int], env: Mapping[str, str],
        log: Path | None, netns: str | None,
    ) -> Spawned:  # fmt: skip
        daemon = docker_daemon.daemon_for(self._real(), build_root(find_engine()))
        self._entries.append(
            self._session.ledger.record(DockerThing("container", name, daemon.host))
        )
        words = ["run", "-i", "--rm", "--name", name, "--network", "none"]
        words += [*docker_least(RUN_MIB), *DOCKER_SCRATCH, *docker_powers(CAPABILITIES)]
        words += ["--device", TUN] if Path(TUN).exists() else []
        for one in self._shown(args):
            words += ["-v", f"{one.path}:{one.path}{'' if one.writable else ':ro'}"]
        for key, value in self._environment(env).items():
            words += ["-e", f"{key}={value}"]
        outer = self._host.spawn(
            daemon.command(*words, daemon.image, *_pinned(cores), *args), log=log
        )
        ask = daemon.command("inspect", "-f", "{{.State.Pid}}", name)
        pid = self._wait(outer, name, lambda: self._number(ask))
        if netns:  # Docker joins none, so the name goes to the container's own
            path = netlink.NETNS_DIR / netns
            mounts.unmount(path)
            mounts.bind(f"/proc/{pid}/ns/net", path)
        return Contained(outer, pid)

    def _real(self) -> Session:
        return replace(self._session, host=self._host)

    def _environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """A container begins with an empty one."""
        own = {SESSION_VARIABLE: self._session.id, "LC_ALL": "C", "PATH": PATH_INSIDE}
        return {**own, **env}

    def _shown(self, args: Sequence[str]) -> list[_Shown]:
        """What the container sees of the host."""
        system = [Path("/usr"), Path("/etc/alternatives"), Path("/etc/ld.so.cache")]
        programs = (Path(shutil.which(word) or word) for word in args if "/" in word)
        own = {path.resolve().parent for path in programs if path.is_file()}
        outside = [path for path in sorted(own) if not path.is_relative_to("/usr")]
        run_dir = self._session.run_dir
        found = [*system, *(path for path in outside if not path.is_relative_to(run_dir))]
        return [*(_Shown(path) for path in found if path.exists()), _Shown(run_dir, True)]

    def _number(self, ask: Sequence[str]) -> int | None:
        done = self._host.run(ask, check=False)
        text = done.stdout.strip()
        return int(text) if done.exit_code == 0 and text.isdigit() and int(text) > 0 else None

    def _wait(self, outer: Spawned, name: str, look: Callable[[], int | None]) -> int:
        """The program's process id, once it has one."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while (pid := look()) is None:
            if (code := outer.poll()) is not None:
                words = " ".join(outer.stderr_tail().strip().splitlines()[-1:])
                raise TrialFailed(f"container {name} ended with exit code {code}: {words}")
            if time.monotonic() > deadline:
                raise TrialFailed(f"container {name}: not started in {START_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)
        return pid


def contained(session: Session, kind: str) -> Session:
    """The session that a switch is to be started with."""
    return session if kind == HOST else replace(session, host=ContainedHost(session, kind))


def close(session: Session) -> None:
    """Remove the containers of a session made by `contained`. Idempotent."""
    if isinstance(session.host, ContainedHost):
        session.host.close()


def _make_root(root: Path, shown: Sequence[_Shown]) -> None:
    """An empty root with the places where things are mounted."""
    for folder in ("dev", "proc", "sys", "run", "tmp", "etc", "usr", "var"):
        (root / folder).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "var/run").symlink_to("../run")
    for one in shown:
        place = root / str(one.path)[1:]
        if one.path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()


def _pinned(cores: Sequence[int]) -> list[str]:
    """Set inside: a container begins with the cores of its control group."""
    return ["/usr/bin/taskset", "-c", ",".join(map(str, cores))] if cores else []


def _only_child(pid: int) -> int | None:
    with suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    return None


def problem(kind: str) -> str | None:
    """What this machine lacks for such containers; None when nothing. (Imported late: the
    environments know about switches.)"""
    from switchmark.environment.registry import ENVIRONMENTS

    if kind == HOST:
        return None
    found = ENVIRONMENTS[kind]().probe()
    remedy = f"; {found.remedy}" if found.remedy else ""
    if not found.available:
        return f"switch_environment {kind} cannot run here: {found.reason}{remedy}"
    if kind in CONTAINERS and not Path("/usr/bin/taskset").exists():
        return f"switch_environment {kind}: no `taskset` program; apt install util-linux"
    return None
