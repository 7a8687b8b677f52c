"""A node that is a container with the engine's own root, put around a network namespace whenever an
engine or a program is started in it."""

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
    """A container with its ports; it exists as long as the engine in it runs."""

    def __init__(self, session: Session, attached: Attached, engine: Path) -> None:
        super().__init__(session, attached, engine)
        self._name = str(attached.netns)  # one name for both, each in its own kind

    @abstractmethod
    def run_engine(self, args: Sequence[str]) -> Spawned:
        """Start the container with `switchmark-traffic ARGS` in it, pinned to the node's cores."""

    @abstractmethod
    def run_program(self, inside: Inside) -> Spawned:
        """Start the container with a program of the host's in it."""

    def linux_capabilities(self) -> Sequence[str]:
        """The capabilities of what runs in it."""
        return self.spec.linux_capabilities

    def folders(self) -> list[tuple[Path, str]]:
        """The folders of the host that the engine sees, and where."""
        found = [(batons.folder_of(self._session), batons.FOLDER_INSIDE)]
        if self.spec.port.socket_host is not None:
            found.append((self.spec.port.socket_host.parent, SOCKET_FOLDER_INSIDE))
        return found

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """See `Node`. Raises UnavailableError while an engine runs in it already."""
        if any(process.poll() is None for process in self._spawned):
            raise UnavailableError(f"container {self._name}: an engine runs in it already")
        self._spawned.append(self.run_engine(batons.with_baton(args, batons.FOLDER_INSIDE)))
        return self._spawned[-1]

    def spawn_program(
        self, args: Sequence[str], env: Mapping[str, str], rights: Rights | None = None
    ) -> Spawned:
        """See `Node`: the container then sees the host's /usr and the program's own folder, too,
        read-only. It has capabilities of its own. Raises TrialFailed."""
        del rights
        shown = sockets_shown(self.spec.port.socket_host, SOCKET_FOLDER_INSIDE)
        held = self.linux_capabilities()
        self._spawned.append(
            self.run_program(Inside(self._name, args, held, shown, self.spec.cores, env))
        )
        return self._spawned[-1]
