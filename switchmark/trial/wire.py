"""Where the bare wire of a trial is: at which place, over which kind of port and by which I/O.

This is decided here alone; the record keeps it, so that results find the wire that judged a trial.
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
    """Return True if the bare wire of a trial is the cable between its two hosts."""
    if plan.far is None:
        return False
    return bare_cable_problem(len(plan.topology.paths), plan.io) is None


def bare_wire(plan: TrialPlan) -> BareWire:
    """What the wire of a trial is, whatever the switch."""
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
    """The bare wire by which a trial is judged; None where there is none: for the wire itself, for
    ports that are not there without their switch, and for nodes that cannot be joined."""
    trial = plan.trial
    if trial.switch == WIRE or plan.port_kind in MADE_BY_SWITCH:
        return None
    wire = bare_wire(plan)
    stays = wire.location == "local" and traits_of(trial.environment).guests
    return None if stays and trial.scenario.without_vnfs != "p2p" else wire
