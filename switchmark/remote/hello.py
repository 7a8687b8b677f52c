"""An agent's reports of its host, and of the nodes that it created there."""

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
    """The agent's greeting; every other message is an answer. Raises ValueError if the session's
    name is malformed: names of folders and devices contain it."""

    session: str
    run_dir: Path
    hostname: str
    boot_id: str
    facts: Facts

    def __post_init__(self) -> None:
        """Check the name of the session."""
        if not _SESSION.fullmatch(self.session):
            raise ValueError("malformed name of a session")


@dataclass(frozen=True, slots=True)
class MachineMade:
    """The properties of a virtual machine that other nodes do not have; see `VirtualMachine`.
    Raises ValueError for times out of range, since the bench waits for them."""

    emulated: bool
    boot_timeout_s: float
    patience: float
    details: dict[str, str]  # before it boots

    def __post_init__(self) -> None:
        """Check the times."""
        most = EMULATED_BOOT_S * MOST, EMULATED_PATIENCE * MOST
        if not (0 < self.boot_timeout_s <= most[0] and 1 <= self.patience <= most[1]):
            raise ValueError("times out of range")

    @classmethod
    def of(cls, node: Node) -> MachineMade | None:
        """Return the properties of this node; None if it is not a virtual machine."""
        if not isinstance(node, VirtualMachine):
            return None
        return cls(node.emulated, node.boot_timeout_s, node.patience, node.details())


@dataclass(frozen=True, slots=True)
class NodeMade:
    """A node that the agent created."""

    node: int  # its number in requests
    spec: NodeSpec
    netns: str | None
    machine: MachineMade | None = None
