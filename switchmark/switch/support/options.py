"""Settings of one switch that a campaign may choose: `switch_options: {emc: off}`.

A switch names its options in its `Capabilities`; other options are refused when the campaign is
read. As text, in notations and records, a choice is `emc:off+pmd_maxsleep_us:50`,
sorted by name; no choice is `none`, and leaves every option at its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.model.capabilities import Capabilities
from switchmark.model.options import SwitchOptions, in_force, refusal
from switchmark.switch.support.base import HasPages, Switch


class WithOptions:
    """A switch with options, of which it stores the choice."""

    name: str
    capabilities: Capabilities
    _chosen: Mapping[str, str] | None = None

    def configure(self, options: Mapping[str, str]) -> None:
        """Use these options at every later start. Raises `UsageError` for unknown options."""
        if (message := refusal(self.name, self.capabilities, options)) is not None:
            raise UsageError(message)
        self._chosen = dict(options)

    def options(self) -> dict[str, str]:
        """Return the value of every option: chosen, set by a chosen option, or the default."""
        return in_force(self.capabilities, self._chosen or {})

    def option(self, name: str) -> str:
        """Return the value of an option."""
        return self.options()[name]

    def option_details(self) -> dict[str, str]:
        """Return every option and its value, for the record."""
        return {f"option:{name}": value for name, value in self.options().items()}


class WithProgram:
    """A switch whose executable a campaign may choose by its path (`program`)."""

    chosen_program: Path | None = None  # for every later start; None: the program of this machine


def configured(
    switch: Switch, text: str, program: str = "", *, small_pages: bool = False
) -> Switch:
    """Return the switch with the options in the text, the named executable, and its memory on small
    pages if it supports them. Raises `UsageError`."""
    if isinstance(switch, HasPages):
        switch.small_pages = small_pages
    if program:
        if not isinstance(switch, WithProgram):
            raise UsageError(f"{switch.name} takes no program", remedy="leave program out")
        switch.chosen_program = Path(program)
    options = SwitchOptions.of(text).chosen
    if options:
        if not isinstance(switch, WithOptions):
            raise UsageError(
                f"{switch.name} has no switch options", remedy="leave switch_options out"
            )
        switch.configure(options)
    return switch
