"""The contents of this installation: the registered switches, environments and scenarios.

The one place where the pure part of planning meets the registries. Nothing is tried here;
whether the machine can run them is the business of `switchmark doctor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from switchmark.host.programs import program_problem
from switchmark.instrument.registry import generator_names
from switchmark.method.registry import method_names
from switchmark.method.support.goal import PRESETS
from switchmark.model.capabilities import Capabilities
from switchmark.model.parameter_type import Known
from switchmark.model.ports import PortKind
from switchmark.workload.registry import workload_names


@dataclass(frozen=True, slots=True)
class Installed:
    """The registries, read once."""

    switches: Mapping[str, Capabilities]
    environments: Mapping[str, tuple[PortKind, ...]]  # and the ports they can give a node
    scenarios: Mapping[str, str]  # and what they are

    @property
    def known(self) -> Known:
        """The names alone, for the campaign loader."""
        return Known(
            tuple(self.switches),
            tuple(self.environments),
            tuple(self.scenarios),
            tuple(method_names()),
            tuple(PRESETS),
            generator_names(),
            program_problem,
            tuple(
                name
                for name, abilities in self.switches.items()
                if abilities.is_contender and not abilities.only_routes
            ),
            workload_names(),
        )


def installed() -> Installed:
    """Read the registries. Fast, and without effect on the machine."""
    from switchmark.environment.registry import ENVIRONMENTS
    from switchmark.model.scenario import WRITTEN
    from switchmark.switch.registry import SWITCHES

    return Installed(
        {name: make().capabilities for name, make in SWITCHES.items()},
        {name: tuple(make().port_kinds()) for name, make in ENVIRONMENTS.items()},
        WRITTEN,
    )
