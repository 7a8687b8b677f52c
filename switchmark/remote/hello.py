"""What an agent reports of its host, and of the nodes it has made there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from switchmark.model.node import NodeSpec
from switchmark.testbed.facts import Facts

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
class NodeMade:
    """A node as it was made there."""

    node: int  # its number, by which it is asked for
    spec: NodeSpec
    netns: str | None
