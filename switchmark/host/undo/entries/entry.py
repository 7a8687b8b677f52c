"""Something that the bench makes on a machine, and how it is undone.

Undoing is idempotent and tolerant: what was never made, or is gone already, does
no harm. What cannot be undone raises OSError with a line that says why.
"""

from __future__ import annotations

import dataclasses
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class UndoEntry(ABC):
    """Something made on the machine. Subclasses are plain values that go to JSON and back."""

    kind: ClassVar[str]
    survives_boot: ClassVar[bool] = True  # whether undoing makes sense after a reboot

    def problem(self, session_id: str) -> str | None:  # noqa: ARG002
        """Why this session must not make (and later undo) it; None when it may."""
        return None

    def holds(self, other: UndoEntry) -> bool:  # noqa: ARG002
        """Whether the other would be destroyed with it: then that one is undone before."""
        return False

    @abstractmethod
    def undo(self) -> None:
        """Remove it from the machine."""

    def __str__(self) -> str:
        values = (str(getattr(self, field.name)) for field in dataclasses.fields(self))
        return f"{self.kind} {' '.join(values)}"


def foreign_name(name: str, session_id: str) -> str | None:
    """Why a name is not ours: our names carry the session id, which no user's name does."""
    prefix = f"sm{session_id}"
    return None if name.startswith(prefix) else f"{name}: a name we make begins with {prefix}"


def exists_already(path: str) -> str | None:
    """Why something is not ours: what exists before we make it must not be undone by us."""
    return f"{path}: exists already, and is not ours" if os.path.lexists(path) else None


@dataclass(frozen=True, slots=True)
class NamedEntry(UndoEntry):
    """An object with a name of our making."""

    name: str

    @override
    def problem(self, session_id: str) -> str | None:
        return foreign_name(self.name, session_id)


@dataclass(frozen=True, slots=True)
class NewPath(UndoEntry):
    """An object at a path where nothing was before."""

    path: str

    @override
    def problem(self, session_id: str) -> str | None:
        return exists_already(self.path)
