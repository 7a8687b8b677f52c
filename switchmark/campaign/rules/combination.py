"""Whether a switch can carry a scenario, in an environment, over a kind of port: by capabilities
alone, for docs/combinations.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from switchmark.campaign.rules.layout import (
    bare_cable_problem,
    place_problem,
    ports_problem,
    wire_end_problem,
    wire_problem,
)
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import WIRE
from switchmark.model.io import Io
from switchmark.model.ports import MADE_BY_SWITCH, ConnectMode, PortKind
from switchmark.model.scenario import resolve


@dataclass(frozen=True, slots=True)
class Combination:
    """One cell's part."""

    switch: str
    scenario: str
    environment: str
    port_kind: PortKind
    between: bool = False  # two hosts


def problem(
    one: Combination, can: Capabilities, environments: Mapping[str, Collection[PortKind]]
) -> str | None:
    """Why it cannot be; None when it can."""
    found = resolve(one.scenario)
    assert found is not None, one.scenario
    pairs = found.pairs or 1
    text = (
        wire_problem(one.switch, found)
        or ports_problem(one.switch, can, found, pairs)
        or (
            f"{one.environment} has no {one.port_kind} ports"
            if one.port_kind not in environments[one.environment]
            else None
        )
        or place_problem(one.switch, one.environment, found)
        or wire_end_problem(can, found, one.port_kind)
        or (between_problem(one, can, pairs) if one.between else None)
    )
    return text and text.partition(";")[0]


def between_problem(one: Combination, can: Capabilities, pairs: int) -> str | None:
    """Why it cannot be between two hosts, with what is to be done instead; None when it can."""
    if not can.cable_ends:
        return f"{one.switch} cannot be between hosts: {can.uncabled}"
    if one.port_kind in MADE_BY_SWITCH:
        return f"{one.port_kind} ports are made by the switch, before the nodes"
    if one.environment == "qemu":
        return "virtual machines work on one host only"
    if one.switch == WIRE:
        return _bare_cable_problem(one, pairs)
    if pairs > 1 and ConnectMode.LEARNING not in can.connect_modes:
        return "several pairs share one cable, and cross-connect can carry one pair only"
    return None


def _bare_cable_problem(one: Combination, pairs: int) -> str | None:
    if one.port_kind is not PortKind.VETH:
        return "direct between hosts has the cable for a port"
    if one.environment == "bare":
        return "direct between hosts lends the cable to a namespace"
    return bare_cable_problem(pairs, Io.AUTO)
