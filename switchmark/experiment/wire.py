"""The bare wire that a trial is judged by: the same trial without a switch, on the same cores.

The table of parameters says which values differ in it; what depends on the trial's ports and cores
is decided here.
"""

from __future__ import annotations

from typing import Any

from switchmark.campaign.rules.between import bare_cable_problem
from switchmark.campaign.rules.layout import WIRELESS
from switchmark.engine.arguments import io_of
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import PLAIN, WIRE
from switchmark.model.parameters import load_of, over_wire, saturating
from switchmark.model.ports import MADE_BY_SWITCH, ConnectMode, PortKind
from switchmark.model.topology import wire_kind
from switchmark.model.trial import Trial
from switchmark.trial.plan import WIRE_ENVIRONMENT, TrialPlan

CEILING_RUN_S = 3.0  # kept of the saturating run over the wire that a search is bounded by


def over_cable(plan: TrialPlan) -> bool:
    """Whether the bare wire of a trial is the cable between its two hosts."""
    if plan.far is None:
        return False
    io = io_of(plan.trial, plan.port_kind)
    return bare_cable_problem(len(plan.topology.paths), io) is None


def baseline_of(plan: TrialPlan, can: Capabilities) -> Trial | None:
    """The trial over the bare wire that judges this one; None for the wire itself.

    Its placement must be the trial's own, with the switch's cores left idle. Between hosts the wire
    is their cable, where that can carry the trial; else it is one on this host."""
    trial = plan.trial
    if trial.switch == WIRE or plan.port_kind in MADE_BY_SWITCH:
        return None  # (such a port is not there without its switch, so it has no bare wire)
    changes = _changes(plan)
    stays = changes["location"] == "local" and trial.environment in WIRELESS
    if stays and changes["scenario"] != "p2p":
        return None
    if trial.method != PLAIN:  # a method of many trials wants one saturating run
        trimmed_s = plan.policy.warm_up_s + plan.policy.cool_down_s
        changes |= saturating() | {"duration_s": trimmed_s + CEILING_RUN_S}
    return trial.model_copy(
        update=changes
        | {
            "switch": WIRE,
            "connect_mode": ConnectMode.CROSS_CONNECT,
            "spare_cores": 0 if can.in_kernel else trial.switch_cores,
        }
    )


def load_at(plan: TrialPlan) -> dict[str, Any]:
    """Everything that a ceiling (or a floor) depends on, which the trial and the bare wire have in
    common."""
    wire = plan.trial.model_copy(update=_changes(plan))
    ends = wire.model_dump(mode="json", include={"port_kind", "io"})
    return load_of(wire, ceiling=True) | ends


def _changes(plan: TrialPlan) -> dict[str, Any]:
    """The values in which the wire of a trial differs, whatever the switch."""
    trial, cabled = plan.trial, over_cable(plan)
    elsewhere = trial.environment in WIRELESS or (cabled and trial.environment == "bare")
    return over_wire(trial) | {
        "location": "remote" if cabled else "local",
        "environment": WIRE_ENVIRONMENT if elsewhere else trial.environment,
        "port_kind": PortKind.VETH if cabled else wire_kind(plan.port_kind),
        "io": io_of(trial, plan.port_kind),
    }
