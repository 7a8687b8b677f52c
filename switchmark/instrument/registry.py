"""The foreign instruments by name: a file of this folder with a class of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from switchmark.model.choices import OWN_ENGINE
from switchmark.plugins import PluginRegistry, load_class

if TYPE_CHECKING:
    from switchmark.instrument.support.base import Instrument

INSTRUMENTS: PluginRegistry[Callable[[], Instrument]] = PluginRegistry(
    "switchmark.instrument", load_class
)


def generator_names() -> tuple[str, ...]:
    """The values of `generator`: our own engine, and the foreign instruments."""
    return (OWN_ENGINE, *INSTRUMENTS)
