"""LXC containers: the engine with separate files, processes, network and control groups.

A node's network namespace is made first, with its port attached; the container is put around it
when the engine is started (`lxc-execute`, 3 to 15 ms) and ends with it. LXC's small init is process
1: it reaps, passes signals on and returns the engine's exit code. Standard streams are the bench's
own pipes, so the end of standard input reaches the engine as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from switchmark.engine.binary import find_engine
from switchmark.environment.netns import NetnsEnvironment
from switchmark.environment.support.base import IsolatedProgram, Traits, needed_under
from switchmark.environment.support.container import SOCKET_FOLDER_INSIDE, ContainerNode
from switchmark.environment.support.rootfs import (
    BUSYBOX_INSIDE,
    ENGINE_INSIDE,
    build_root,
    no_busybox,
)
from switchmark.host import place
from switchmark.host.containers.confined import lxc_config, lxc_network
from switchmark.host.containers.in_container import (
    Contained,
    Inside,
    lxc_root,
    pid_in_lxc,
    spawn_lxc,
)
from switchmark.host.host import Session, Spawned
from switchmark.host.kernel.cgroups import roots
from switchmark.host.kernel.namespaces import NETNS_DIR
from switchmark.host.place import Facility
from switchmark.host.process_output import stdout_of
from switchmark.host.programs import not_installed
from switchmark.host.undo.entries import Container, Directory, LxcPivot
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.port.attached import Attached

FOLDER_MOUNT = "lxc.mount.entry = {folder} {inside} none bind,create=dir 0 0\n"


class LxcNode(ContainerNode):
    """An LXC container with its ports."""

    def __init__(self, session: Session, attached: Attached, engine: Path, root: Path) -> None:
        super().__init__(session, attached, engine)
        self._lxcpath, self._root = session.run_dir / "lxc", root
        known = any(isinstance(one.entry, LxcPivot) for one in session.ledger.outstanding())
        if not known and not LxcPivot.existing():
            session.ledger.record(LxcPivot())

    def run_engine(self, name: str, args: Sequence[str]) -> Spawned:
        """See `ContainerNode`."""
        self._record(name)
        folder = self._lxcpath / name
        self._lxcpath.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir()
        (folder / "config").write_text(self._config(name, folder / "log"))
        # Older kernels forget the inherited affinity when LXC moves the container into its
        # cpuset group, so it is set again inside.
        mask = hex(sum(1 << core for core in self.spec.cores))
        pinned = [BUSYBOX_INSIDE, "taskset", mask, ENGINE_INSIDE, *args]
        command = ["lxc-execute", "-P", str(self._lxcpath), "-n", name, "--", *pinned]
        host = self._session.host
        outer = host.spawn(command, cores=self.spec.cores, container=name)
        return Contained(outer, lambda: pid_in_lxc(host, self._lxcpath, name))

    def run_program(self, inside: Inside) -> Spawned:
        """See `ContainerNode`."""
        self._record(inside.name)
        root = lxc_root(self._session, inside.name)
        self._attached.entries.append(self._session.ledger.record(Directory(str(root))))
        return spawn_lxc(self._session, inside, netns=NETNS_DIR / self._name)

    def linux_capabilities(self) -> Sequence[str]:
        """The capabilities asked for, without the one that no filter here makes necessary."""
        return needed_under(LxcEnvironment.traits, self.spec.linux_capabilities)

    def _record(self, name: str) -> None:
        """Enter a container in the ledger before it is made."""
        container = Container(name, str(self._lxcpath))
        self._attached.entries.append(self._session.ledger.record(container))

    def _config(self, name: str, log: Path) -> str:
        text = lxc_config(
            name,
            self._root,
            log,
            network=lxc_network(NETNS_DIR / self._name),
            linux_capabilities=self.linux_capabilities(),
            run_mib=1,
        )
        for folder, inside in self.folders():
            text += FOLDER_MOUNT.format(folder=folder, inside=inside.lstrip("/"))
        return text


NEEDS = (Facility.NETWORK_NAMESPACE, Facility.CONTROL_GROUPS)


class LxcEnvironment(NetnsEnvironment):
    """Creates nodes that are LXC containers, in the bench's own path: it never touches others."""

    name = "lxc"
    traits = Traits(noun="LXC containers", own_cgroup=True)
    sockets_inside = SOCKET_FOLDER_INSIDE

    def availability(self) -> Availability:
        """Available with LXC and its static init, a static BusyBox, and `NEEDS`."""
        problem = place.missing(*NEEDS) or not_installed("lxc-execute", "lxc") or no_busybox()
        if problem is not None:
            return problem
        if _static_init() is None:
            return unavailable("no static init of LXC's", remedy="apt install lxc")
        if not roots():
            return unavailable(
                "no control group hierarchy is mounted, and LXC needs one",
                remedy="mount -t cgroup2 cgroup2 /sys/fs/cgroup",
            )
        return available(stdout_of(["lxc-execute", "--version"]) or "")

    def maker(self) -> Callable[[Session, Attached], LxcNode]:
        """A function that makes a node; its container is put around the namespace when the engine
        starts."""
        engine = find_engine()
        return partial(LxcNode, engine=engine, root=build_root(engine))

    def spawn_isolated(self, session: Session, program: IsolatedProgram) -> Spawned:
        """See `SwitchEnvironment`."""
        inside, netns = program.inside, program.netns
        program.note(Directory(str(lxc_root(session, inside.name))))
        program.note(Container(inside.name, str(session.run_dir / "lxc")))
        return spawn_lxc(session, inside, program.log, NETNS_DIR / netns if netns else None)


def _static_init() -> Path | None:
    """LXC's static init, which it puts into containers that have none."""
    for folder in ("/usr/sbin", "/sbin", "/usr/libexec", "/usr/lib/lxc"):
        if (path := Path(folder, "init.lxc.static")).exists():
            return path
    return None
