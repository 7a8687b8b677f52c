"""A node that is a network namespace; each engine or program of it runs in its own container, which
joins the namespace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from switchmark.environment.netns import NetnsNode
from switchmark.environment.support import batons
from switchmark.errors import UnavailableError
from switchmark.host.containers.in_container import (
    NAMES_OF_USERS,
    Inside,
    ShownPath,
    sockets_shown,
)
from switchmark.host.host import Session, Spawned
from switchmark.host.programs import with_folder
from switchmark.model.rights import Rights
from switchmark.port.attached import Attached

SOCKET_FOLDER_INSIDE = "/run/vhost"


class ContainerNode(NetnsNode, ABC):
    """A network namespace with its ports. A container exists while an engine or a program runs in
    it."""

    def __init__(self, session: Session, attached: Attached, engine: Path) -> None:
        super().__init__(session, attached, engine)
        self._name = str(attached.netns)  # also the name of the first container
        self._started = 0  # number of containers

    @abstractmethod
    def run_engine(self, name: str, args: Sequence[str]) -> Spawned:
        """Start a container with `switchmark-traffic ARGS` in it, pinned to the node's cores."""

    @abstractmethod
    def run_program(self, inside: Inside) -> Spawned:
        """Start a container with a program of the host in it."""

    def linux_capabilities(self) -> Sequence[str]:
        """The capabilities of its programs."""
        return self.spec.linux_capabilities

    def folders(self) -> list[tuple[Path, str]]:
        """Return the folders of the host that the engine sees, and their paths in the container."""
        folders = [(batons.folder_of(self._session), batons.FOLDER_INSIDE)]
        if self.spec.port.socket_host is not None:
            folders.append((self.spec.port.socket_host.parent, SOCKET_FOLDER_INSIDE))
        return folders

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """See `Node`. Raises UnavailableError while an engine runs in it already."""
        if any(process.poll() is None for process in self._spawned):
            raise UnavailableError(f"container {self._name}: an engine runs in it already")
        arguments = batons.with_baton(args, batons.FOLDER_INSIDE)
        self._spawned.append(self.run_engine(self._next_name(), arguments))
        return self._spawned[-1]

    def spawn_program(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        rights: Rights | None = None,
        folder: Path | None = None,
    ) -> Spawned:
        """See `Node`. The container also sees the host's /usr and the folder of the program, both
        read-only. The program of an application also sees `folder` and the names of the host's
        users. Its capabilities are those of the node, not `rights`. Raises TrialFailed."""
        del rights
        shown = sockets_shown(self.spec.port.socket_host, SOCKET_FOLDER_INSIDE)
        if folder is not None:
            names = (ShownPath(path) for path in NAMES_OF_USERS if path.exists())
            shown += [ShownPath(folder, writable=True), *names]
            args = [with_folder(args[0]), *args[1:]]
        capabilities = self.linux_capabilities()
        inside = Inside(self._next_name(), args, capabilities, shown, self.spec.cores, env)
        self._spawned.append(self.run_program(inside))
        return self._spawned[-1]

    def _next_name(self) -> str:
        """Return the name of the node's next container. A container that ends may keep its name for
        a while."""
        self._started += 1
        return self._name if self._started == 1 else f"{self._name}-{self._started}"
