"""All truths by name: a file of this folder that holds a `TRUTH`."""

from __future__ import annotations

from types import ModuleType

from switchmark.certify.support.truth import Truth
from switchmark.errors import SwitchmarkError
from switchmark.folder import Folder


def _truth(module: ModuleType, name: str) -> Truth:
    found = getattr(module, "TRUTH", None)
    if not isinstance(found, Truth) or found.name != name:
        raise SwitchmarkError(f"{module.__name__}: holds no TRUTH with name {name!r}")
    return found


TRUTHS: Folder[Truth] = Folder("switchmark.certify", _truth)
