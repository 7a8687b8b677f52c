"""The foreign instruments there are, by name: a file of this folder with a class of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from switchmark.folder import Folder, class_named
from switchmark.model.choices import OWN_ENGINE

if TYPE_CHECKING:
    from switchmark.instrument.support.base import Instrument

INSTRUMENTS: Folder[Callable[[], Instrument]] = Folder("switchmark.instrument", class_named)


def generator_names() -> tuple[str, ...]:
    """What a campaign may write: our own engine, or an instrument that others have written."""
    return (OWN_ENGINE, *INSTRUMENTS)
