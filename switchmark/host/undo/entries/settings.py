"""Settings of the kernel that the bench changes and restores."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from switchmark.host.undo.entries.entry import UndoEntry


def chosen_of(text: str) -> str:
    """Return the value of a kernel setting; in a list of choices, the choice in brackets."""
    choices = text.split()
    chosen = [word[1:-1] for word in choices if word.startswith("[") and word.endswith("]")]
    return chosen[0] if len(choices) > 1 and chosen else text.strip()


@dataclass(frozen=True, slots=True)
class KernelSetting(UndoEntry):
    """A kernel setting in /proc/sys or /sys that had `old` and was given `new`.

    It is restored only while it still reads `new`: another's later change is left alone."""

    kind: ClassVar[str] = "setting"
    survives_boot: ClassVar[bool] = False
    path: str
    old: str
    new: str

    @override
    def undo(self) -> None:
        file = Path(self.path)
        with suppress(FileNotFoundError):
            if chosen_of(file.read_text()) == self.new:
                file.write_text(self.old + "\n")


@dataclass(frozen=True, slots=True)
class Hugepages(UndoEntry):
    """A number of hugepages that was changed from `old` towards `new` (the kernel may have
    found fewer). Put back only while it lies between the two."""

    kind: ClassVar[str] = "hugepages"
    survives_boot: ClassVar[bool] = False
    path: str
    old: int
    new: int

    @override
    def undo(self) -> None:
        file = Path(self.path)
        with suppress(FileNotFoundError):
            least, most = sorted((self.old, self.new))
            if least <= int(file.read_text()) <= most:
                file.write_text(f"{self.old}\n")
