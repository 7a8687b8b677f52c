"""Return True if a switch can carry a scenario, in an environment, over a kind of port: by
capabilities alone, for docs/combinations.md."""

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
    """One cell of the table: a switch, a scenario, an environment and a kind of port."""

    switch: str
    scenario: str
    environment: str
    port_kind: PortKind
    between: bool = False  # two hosts


def problem(
    one: Combination, can: Capabilities, environments: Mapping[str, Collection[PortKind]]
) -> Refusal | None:
    """Return why the combination cannot run; None if it can."""
    found = Scenario.of(one.scenario)
    assert found.is_known, one.scenario
    pairs = found.paths or 1
    return (
        wire_problem(one.switch, found)
        or network_problem(one.switch, can, found)
        or ports_problem(one.switch, can, found, pairs)
        or (
            Refusal(f"{one.environment} has no {one.port_kind} ports")
            if one.port_kind not in environments[one.environment]
            else None
        )
        or place_problem(one.switch, one.environment, found)
        or wire_end_problem(can, found, one.port_kind)
        or (_between_problem(one, can, pairs) if one.between else None)
    )


def _between_problem(one: Combination, can: Capabilities, pairs: int) -> Refusal | None:
    """Return why the combination cannot run between two hosts in any mode; None if it can."""
    each = [
        next(
            between_problems(one.switch, can, mode, one.environment, one.port_kind, Io.AUTO, pairs),
            None,
        )
        for mode in can.connect_modes
    ]
    return each[0] if all(each) else None
