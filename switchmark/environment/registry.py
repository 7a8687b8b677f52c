"""The environments by name: a file of this folder with a class of that name."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.environment.support.base import Environment
from switchmark.folder import Folder, class_named

ENVIRONMENTS: Folder[Callable[[], Environment]] = Folder("switchmark.environment", class_named)
