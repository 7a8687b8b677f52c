"""The foreign instruments by name: a file of this folder with a class of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from switchmark.model.choices import OWN_ENGINE
from switchmark.model.workload import FRAMES
from switchmark.plugins import PluginRegistry, load_class

if TYPE_CHECKING:
    from switchmark.instrument.support.base import Abilities, Instrument

INSTRUMENTS: PluginRegistry[Callable[[], Instrument]] = PluginRegistry(
    "switchmark.instrument", load_class
)


def abilities_for(generator: str, workload: str) -> Abilities | None:
    """Return the abilities of a generator for a workload; None if it does not run it, and for
    frames of the engine."""
    if generator == OWN_ENGINE:
        from switchmark.instrument.support.engine_workloads import engine_abilities

        return None if workload == FRAMES else engine_abilities(workload)
    return INSTRUMENTS[generator]().abilities_for(workload)


def generator_names() -> tuple[str, ...]:
    """The values of `generator`: our own engine, and the foreign instruments."""
    return (OWN_ENGINE, *INSTRUMENTS)
