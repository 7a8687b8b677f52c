"""Every switch the bench knows, by name: a file of this folder with a class of that name."""

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
    """Make a switch by its name. Raises `UsageError` that lists the known ones."""
    if name not in SWITCHES:
        raise UsageError(
            f"switch {name}: not known", remedy=f"known switches: {', '.join(SWITCHES)}"
        )
    return SWITCHES[name]()


def contenders_that(can: Callable[[Capabilities], bool]) -> str:
    """The contenders of these capabilities, in words for messages."""
    every = {name: make().capabilities for name, make in SWITCHES.items()}
    return " or ".join(name for name, its in every.items() if its.is_contender and can(its))


def table_refusal(name: str, options: str, table: FunctionTable) -> Refusal | None:
    """Return why a switch with these options cannot express a table; None if it can, or if the
    switch or the options are not known."""
    if name not in SWITCHES:
        return None
    try:
        switch = configured(SWITCHES[name](), options)
    except UsageError:  # which other rules refuse
        return None
    refusal = switch.table_refusal(table) if isinstance(switch, RefusesTables) else None
    return refusal and refusal.about(f"{name}: ")


@cache
def usual_overhead_s(switch: str) -> float:
    """Seconds that the bench usually takes around a trial of this switch. One that is not here, of
    a run from elsewhere, counts as a program: it is given too much time rather than too little."""
    if switch not in SWITCHES:
        return PROGRAM_OVERHEAD_S
    return SWITCHES[switch]().capabilities.usual_overhead_s
