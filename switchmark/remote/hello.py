"""What an agent reports of its host, and of the nodes it has made there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from switchmark.environment.support.base import Node, VirtualMachine
from switchmark.environment.vm.node import EMULATED_BOOT_S, EMULATED_PATIENCE
from switchmark.environment.vm.patience import MOST
from switchmark.host.facts import Facts
from switchmark.model.node import NodeSpec

_SESSION = re.compile(r"[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class Hello:
    """The agent's greeting; every other message is an answer. Raises ValueError where the session's
    name is not one of a session: folders and devices are named after it."""

    session: str
    run_dir: Path
    hostname: str
    boot_id: str
    facts: Facts

    def __post_init__(self) -> None:
        """Check the name of the session."""
        if not _SESSION.fullmatch(self.session):
            raise ValueError("no session has this name")


@dataclass(frozen=True, slots=True)
class MachineMade:
    """What a node that is a virtual machine tells beyond others; see `VirtualMachine`. Raises
    ValueError for times that none takes: they are waited for."""

    emulated: bool
    boot_timeout_s: float
    patience: float
    details: dict[str, str]  # before it is switched on

    def __post_init__(self) -> None:
        """Check the times."""
        most = EMULATED_BOOT_S * MOST, EMULATED_PATIENCE * MOST
        if not (0 < self.boot_timeout_s <= most[0] and 1 <= self.patience <= most[1]):
            raise ValueError("no machine takes so long")

    @classmethod
    def of(cls, node: Node) -> MachineMade | None:
        """What this node tells; None where it is no virtual machine."""
        if not isinstance(node, VirtualMachine):
            return None
        return cls(node.emulated, node.boot_timeout_s, node.patience, node.details())


@dataclass(frozen=True, slots=True)
class NodeMade:
    """A node as it was made there."""

    node: int  # its number, by which it is asked for
    spec: NodeSpec
    netns: str | None
    machine: MachineMade | None = None
