"""The baseline of a trial: its environment, its port kind and its I/O.

Only this module decides it. The record has it, so that results find the baseline of a trial.
"""

from __future__ import annotations

from switchmark.campaign.rules.between import bare_cable_problem
from switchmark.environment.registry import traits_of
from switchmark.model.choices import WIRE
from switchmark.model.ports import MADE_BY_SWITCH, PortKind
from switchmark.model.topology import wire_kind
from switchmark.record import BareWire
from switchmark.trial.plan import WIRE_ENVIRONMENT, TrialPlan


def over_cable(plan: TrialPlan) -> bool:
    """Return True if the baseline of a trial is measured over the cable between its two hosts."""
    if plan.far is None:
        return False
    return bare_cable_problem(len(plan.topology.paths), plan.io) is None


def bare_wire(plan: TrialPlan) -> BareWire:
    """Return the baseline of a trial, which is the same for all switches."""
    trial, cabled = plan.trial, over_cable(plan)
    traits = traits_of(trial.environment)
    elsewhere = traits.guests or (cabled and not traits.own_network)
    return BareWire(
        location="remote" if cabled else "local",
        environment=WIRE_ENVIRONMENT if elsewhere else trial.environment,
        port_kind=PortKind.VETH if cabled else wire_kind(plan.port_kind),
        io=plan.io,
    )


def judging_wire(plan: TrialPlan) -> BareWire | None:
    """Return the baseline by which a trial is judged. None for a trial without a switch, for ports
    that exist only with their switch, and for nodes that cannot be connected directly."""
    trial = plan.trial
    if trial.switch == WIRE or plan.port_kind in MADE_BY_SWITCH:
        return None
    wire = bare_wire(plan)
    stays = wire.location == "local" and traits_of(trial.environment).guests
    return None if stays and trial.scenario.without_vnfs != "p2p" else wire
