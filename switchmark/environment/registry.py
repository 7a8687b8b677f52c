"""The environments by name: a file of this folder with a class of that name."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.environment.support.base import Environment, Traits
from switchmark.plugins import PluginRegistry, load_class

ENVIRONMENTS: PluginRegistry[Callable[[], Environment]] = PluginRegistry(
    "switchmark.environment", load_class
)


def traits_of(name: str) -> Traits:
    """Return the properties of this environment's nodes."""
    return ENVIRONMENTS[name]().traits


def names_of(trait: Callable[[Traits], bool]) -> str:
    """The environments whose nodes have this trait, in words for messages."""
    return " or ".join(name for name in ENVIRONMENTS if trait(traits_of(name)))
