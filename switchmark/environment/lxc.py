"""LXC containers: the engine in its own mount, pid, ipc, uts, cgroup and network namespaces.

A node's network namespace is made first, with its port attached; the container is put around it
when the engine is started (`lxc-execute`, 3 to 15 ms) and ends with it. LXC's small init is process
1: it reaps, passes signals on and returns the engine's exit code. Standard streams are the bench's
own pipes, so the end of standard input reaches the engine as it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from switchmark.engine.binary import find_engine
from switchmark.environment.netns import NetnsEnvironment, NetnsNode
from switchmark.environment.support import batons
from switchmark.environment.support.rootfs import (
    BUSYBOX_INSIDE,
    ENGINE_INSIDE,
    build_root,
    find_busybox,
)
from switchmark.errors import UnavailableError
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.model.node import NodeSpec
from switchmark.port.attached import Attached
from switchmark.testbed.container.confined import lxc_config, lxc_network
from switchmark.testbed.container.in_container import Inside, lxc_root, sockets_shown, spawn_lxc
from switchmark.testbed.host import Session, Spawned
from switchmark.testbed.kernel.cgroups import roots
from switchmark.testbed.kernel.namespaces import NETNS_DIR
from switchmark.testbed.output import stdout_of
from switchmark.testbed.undo.entries import Container, Directory, LxcPivot

SOCKET_FOLDER_INSIDE = "/run/vhost"

FOLDER_MOUNT = "lxc.mount.entry = {folder} {inside} none bind,create=dir 0 0\n"


class LxcNode(NetnsNode):
    """A container with one port; it exists as long as the engine in it runs."""

    def __init__(self, session: Session, attached: Attached, engine: Path, root: Path) -> None:
        super().__init__(session, attached, engine)
        self._lxcpath = session.run_dir / "lxc"
        known = any(isinstance(one.entry, LxcPivot) for one in session.ledger.outstanding())
        if not known and not LxcPivot.existing():
            session.ledger.record(LxcPivot())
        self._name = str(attached.netns)  # one name for both, each in its own kind
        attached.entries.append(session.ledger.record(Container(self._name, str(self._lxcpath))))
        folder = self._lxcpath / self._name
        self._lxcpath.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir()
        (folder / "config").write_text(self._config(root, folder / "log"))

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """Start the container with `switchmark-traffic ARGS` in it, pinned to its cores.

        Raises UnavailableError while an engine runs in it already."""
        if any(process.poll() is None for process in self._spawned):
            raise UnavailableError(f"container {self._name}: an engine runs in it already")
        # Older kernels forget the inherited affinity when LXC moves the container into its
        # cpuset group, so it is set again inside.
        mask = hex(sum(1 << core for core in self.spec.cores))
        told = batons.with_baton(args, batons.FOLDER_INSIDE)
        pinned = [BUSYBOX_INSIDE, "taskset", mask, ENGINE_INSIDE, *told]
        command = ["lxc-execute", "-P", str(self._lxcpath), "-n", self._name, "--", *pinned]
        process = self._session.host.spawn(command, cores=self.spec.cores)
        self._spawned.append(process)
        return process

    def spawn_program(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        may: Sequence[str] | None = None,  # noqa: ARG002
    ) -> Spawned:
        """Start the container with a program of the host's in it; it then sees the host's /usr
        and the program's own folder, too, read-only.

        Raises TrialFailed."""
        session, port = self._session, self.spec.port
        root = lxc_root(session, self._name)
        self._attached.entries.append(session.ledger.record(Directory(str(root))))
        inside = Inside(
            self._name,
            args,
            _linux_capabilities(self.spec),
            sockets_shown(port.socket_host, SOCKET_FOLDER_INSIDE),
            self.spec.cores,
            env,
        )
        process = spawn_lxc(session, inside, netns=NETNS_DIR / self._name)
        self._spawned.append(process)
        return process

    def _config(self, root: Path, log: Path) -> str:
        text = lxc_config(
            self._name,
            root,
            log,
            network=lxc_network(NETNS_DIR / self._name),
            linux_capabilities=_linux_capabilities(self.spec),
            run_mib=1,
        )
        shown = [(batons.folder_of(self._session), batons.FOLDER_INSIDE)]
        if self.spec.port.socket_host is not None:
            shown.append((self.spec.port.socket_host.parent, SOCKET_FOLDER_INSIDE))
        for folder, inside in shown:
            text += FOLDER_MOUNT.format(folder=folder, inside=inside.lstrip("/"))
        return text


class LxcEnvironment(NetnsEnvironment):
    """Makes nodes that are LXC containers, in a path of our own: a user's are never touched."""

    name = "lxc"
    sockets_inside = SOCKET_FOLDER_INSIDE

    def availability(self) -> Availability:
        """Available with LXC and its static init, a static BusyBox, control groups, and root."""
        if os.geteuid() != 0:
            return unavailable("not root", remedy="run switchmark as root (sudo)")
        if shutil.which("lxc-execute") is None or _static_init() is None:
            return unavailable("LXC is not installed", remedy="apt install lxc")
        if not roots():
            return unavailable(
                "no control group hierarchy is mounted, and LXC needs one",
                remedy="mount -t cgroup2 cgroup2 /sys/fs/cgroup",
            )
        try:
            find_busybox()
        except UnavailableError:
            return unavailable("no static BusyBox", remedy="apt install busybox-static")
        return available(stdout_of(["lxc-execute", "--version"]) or "")

    def maker(self) -> Callable[[Session, Attached], LxcNode]:
        """A function that makes a node; its container is put around the namespace when the engine
        starts."""
        engine = find_engine()
        return partial(LxcNode, engine=engine, root=build_root(engine))


def _linux_capabilities(spec: NodeSpec) -> list[str]:
    """The capabilities asked for, without the one that only Docker's seccomp filter makes
    necessary, for placing memory by NUMA node."""
    return [capability for capability in spec.linux_capabilities if capability != "sys_nice"]


def _static_init() -> Path | None:
    """LXC's static init, which it puts into containers that have none."""
    for folder in ("/usr/sbin", "/sbin", "/usr/libexec", "/usr/lib/lxc"):
        if (path := Path(folder, "init.lxc.static")).exists():
            return path
    return None
