"""Checks by capabilities whether a switch supports a scenario in an environment over a port kind,
for docs/combinations.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from switchmark.campaign.rules.between import between_problems
from switchmark.campaign.rules.layout import (
    network_problem,
    place_problem,
    ports_problem,
    wire_end_problem,
    wire_problem,
)
from switchmark.errors import Refusal
from switchmark.model.capabilities import Capabilities
from switchmark.model.io import Io
from switchmark.model.ports import PortKind
from switchmark.model.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Combination:
    """One cell of the table: a switch, a scenario, an environment and a port kind."""

    switch: str
    scenario: str
    environment: str
    port_kind: PortKind
    between: bool = False  # two hosts


def problem(
    combination: Combination,
    capabilities: Capabilities,
    environments: Mapping[str, Collection[PortKind]],
) -> Refusal | None:
    """Return why the combination cannot run; None if it can."""
    scenario = Scenario.of(combination.scenario)
    assert scenario.is_known, combination.scenario
    pairs = scenario.paths or 1
    return (
        wire_problem(combination.switch, scenario)
        or network_problem(combination.switch, capabilities, scenario)
        or ports_problem(combination.switch, capabilities, scenario, pairs)
        or (
            Refusal(f"{combination.environment} has no {combination.port_kind} ports")
            if combination.port_kind not in environments[combination.environment]
            else None
        )
        or place_problem(combination.switch, combination.environment, scenario)
        or wire_end_problem(capabilities, scenario, combination.port_kind)
        or (_between_problem(combination, capabilities, pairs) if combination.between else None)
    )


def _between_problem(cell: Combination, capabilities: Capabilities, pairs: int) -> Refusal | None:
    """Return why the combination cannot run between two hosts in any mode; None if it can."""
    problems = [
        next(
            between_problems(
                cell.switch, capabilities, mode, cell.environment, cell.port_kind, Io.AUTO, pairs
            ),
            None,
        )
        for mode in capabilities.connect_modes
    ]
    return problems[0] if all(problems) else None
