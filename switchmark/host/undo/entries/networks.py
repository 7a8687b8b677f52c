"""Attachments of network namespaces to container networks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from switchmark.host.undo.entries.entry import UndoEntry, foreign_name


@dataclass(frozen=True, slots=True)
class CniAttachment(UndoEntry):
    """A network namespace that a CNI plugin has attached to a network, or is attaching to it. DEL
    gets the list and the result that are stored here: the user's file may have changed."""

    kind: ClassVar[str] = "cni-attachment"
    survives_boot: ClassVar[bool] = False
    container: str
    netns: str
    ifname: str
    host: str  # the network namespace that plays the host
    folder: str  # with its files
    conflist: str
    plugins: str  # folders, separated by colons
    result: str  # JSON that ADD printed; empty while ADD is not complete

    @override
    def problem(self, session_id: str) -> str | None:
        named = (self.container, self.netns, self.host)
        return next(filter(None, (foreign_name(name, session_id) for name in named)), None)

    @override
    def undo(self) -> None:
        from switchmark.host.container_networks.cni import Place, undo_attachment
        from switchmark.host.container_networks.private_host import PrivateHost

        undo_attachment(
            Place(self.container, self.netns, self.ifname),
            PrivateHost(self.host, Path(self.folder)),
            self.conflist,
            self.plugins.split(":"),
            self.result,
            self.container[2:8],
        )

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.container} {self.netns} {self.ifname}"
