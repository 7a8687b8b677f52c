"""The environments by name: a file of this folder with a class of that name."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.environment.support.base import Environment, Traits
from switchmark.folder import Folder, class_named

ENVIRONMENTS: Folder[Callable[[], Environment]] = Folder("switchmark.environment", class_named)


def traits_of(name: str) -> Traits:
    """What the nodes of this environment are."""
    return ENVIRONMENTS[name]().traits


def names_of(trait: Callable[[Traits], bool]) -> str:
    """The environments whose nodes have this trait, in words for messages."""
    return " or ".join(name for name in ENVIRONMENTS if trait(traits_of(name)))
