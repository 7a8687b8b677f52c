"""Every switch the bench knows, by name: a file of this folder with a class of that name."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.errors import UsageError
from switchmark.folder import Folder, class_named
from switchmark.switch.support.base import Switch

SWITCHES: Folder[Callable[[], Switch]] = Folder("switchmark.switch", class_named)


def make_switch(name: str) -> Switch:
    """Make a switch by its name. Raises `UsageError` that lists the known ones."""
    if name not in SWITCHES:
        raise UsageError(f"switch {name}: not known; known switches: {', '.join(SWITCHES)}")
    return SWITCHES[name]()
