"""The foreign instruments by name: a file of this folder with a class of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from switchmark.folder import Folder, class_named
from switchmark.model.choices import OWN_ENGINE

if TYPE_CHECKING:
    from switchmark.instrument.support.base import Instrument

INSTRUMENTS: Folder[Callable[[], Instrument]] = Folder("switchmark.instrument", class_named)


def generator_names() -> tuple[str, ...]:
    """The values of `generator`: our own engine, and the foreign instruments."""
    return (OWN_ENGINE, *INSTRUMENTS)
