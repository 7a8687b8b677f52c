"""A node that is a network namespace; each engine or program of it runs in a container, which joins
the namespace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from switchmark.environment.netns import NetnsNode
from switchmark.environment.support import batons
from switchmark.errors import UnavailableError
from switchmark.host.containers.in_container import Inside, sockets_shown
from switchmark.host.host import Session, Spawned
from switchmark.model.rights import Rights
from switchmark.port.attached import Attached

SOCKET_FOLDER_INSIDE = "/run/vhost"


class ContainerNode(NetnsNode, ABC):
    """A container with its ports. It exists while an engine or a program runs in it."""

    def __init__(self, session: Session, attached: Attached, engine: Path) -> None:
        super().__init__(session, attached, engine)
        self._name = str(attached.netns)  # container and namespace have the same name

    @abstractmethod
    def run_engine(self, args: Sequence[str]) -> Spawned:
        """Start the container with `switchmark-traffic ARGS` in it, pinned to the node's cores."""

    @abstractmethod
    def run_program(self, inside: Inside) -> Spawned:
        """Start the container with a program of the host in it."""

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
        self._spawned.append(self.run_engine(batons.with_baton(args, batons.FOLDER_INSIDE)))
        return self._spawned[-1]

    def spawn_program(
        self, args: Sequence[str], env: Mapping[str, str], rights: Rights | None = None
    ) -> Spawned:
        """See `Node`. The container also sees the host's /usr and the folder of the program, both
        read-only. Its capabilities are those of the node, not `rights`. Raises TrialFailed."""
        del rights
        shown = sockets_shown(self.spec.port.socket_host, SOCKET_FOLDER_INSIDE)
        capabilities = self.linux_capabilities()
        self._spawned.append(
            self.run_program(Inside(self._name, args, capabilities, shown, self.spec.cores, env))
        )
        return self._spawned[-1]
