"""All switches by name. Each is a file of this folder with a class of that name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from switchmark.errors import Refusal, UsageError
from switchmark.function.support.table import FunctionTable
from switchmark.model.capabilities import PROGRAM_OVERHEAD_S, Capabilities
from switchmark.plugins import PluginRegistry, load_class
from switchmark.switch.support.base import RefusesTables, Switch
from switchmark.switch.support.options import configured

SWITCHES: PluginRegistry[Callable[[], Switch]] = PluginRegistry("switchmark.switch", load_class)


def make_switch(name: str) -> Switch:
    """Make a switch by its name. Raises `UsageError` with the known names."""
    if name not in SWITCHES:
        raise UsageError(
            f"switch {name}: not known", remedy=f"known switches: {', '.join(SWITCHES)}"
        )
    return SWITCHES[name]()


def contenders_that(has_ability: Callable[[Capabilities], bool]) -> str:
    """Return the names of the contenders with an ability, as text for messages."""
    every = {name: make().capabilities for name, make in SWITCHES.items()}
    return " or ".join(name for name, its in every.items() if its.is_contender and has_ability(its))


def table_refusal(name: str, options: str, table: FunctionTable) -> Refusal | None:
    """Return why a switch with these options cannot express a table; None if it can, or if the
    switch or the options are not known."""
    if name not in SWITCHES:
        return None
    try:
        switch = configured(SWITCHES[name](), options)
    except UsageError:  # other rules refuse these options
        return None
    refusal = switch.table_refusal(table) if isinstance(switch, RefusesTables) else None
    return refusal and refusal.about(f"{name}: ")


@cache
def usual_overhead_s(switch: str) -> float:
    """Return the usual seconds of the bench around a trial of this switch. An unknown switch, from
    a run of another installation, counts as a program, which needs the most time."""
    if switch not in SWITCHES:
        return PROGRAM_OVERHEAD_S
    return SWITCHES[switch]().capabilities.usual_overhead_s
