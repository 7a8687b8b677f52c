"""A change that the bench makes on a machine, with the method that undoes it.

`undo` is idempotent: a change that was never made, or is undone already, is not an error. It raises
OSError, with the reason in one line, if it cannot undo the change.
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
        """Return the reason why this session must not make the change; None if it can."""
        return None

    def holds(self, other: UndoEntry) -> bool:  # noqa: ARG002
        """Return True if undoing this entry destroys the other, which is then undone first."""
        return False

    @abstractmethod
    def undo(self) -> None:
        """Remove it from the machine."""

    def __str__(self) -> str:
        values = (str(getattr(self, field.name)) for field in dataclasses.fields(self))
        return " ".join([self.kind, *filter(None, values)])


def foreign_name(name: str, session_id: str) -> str | None:
    """Return the reason why a name does not belong to the session; None if it does. Names of the
    bench contain the session id, so they differ from all names of users."""
    prefix = f"sm{session_id}"
    return None if name.startswith(prefix) else f"{name}: names of the bench begin with {prefix}"


def exists_already(path: str) -> str | None:
    """Return an error if the path exists: the bench must not undo what others created."""
    return f"{path}: exists already; the bench did not create it" if os.path.lexists(path) else None


@dataclass(frozen=True, slots=True)
class NamedEntry(UndoEntry):
    """An object with a name of our making."""

    name: str

    @override
    def problem(self, session_id: str) -> str | None:
        return foreign_name(self.name, session_id)


@dataclass(frozen=True, slots=True)
class NewPath(UndoEntry):
    """A new object at a path that did not exist before."""

    path: str

    @override
    def problem(self, session_id: str) -> str | None:
        return exists_already(self.path)
