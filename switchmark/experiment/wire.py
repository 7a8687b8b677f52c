"""The bare wire that a trial is judged by: the same trial without a switch, on the same cores.

The table of parameters says which values differ in it, trial/wire.py where it is; what depends on
the trial's cores is decided here.
"""

from __future__ import annotations

from typing import Any

from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import PLAIN, WIRE
from switchmark.model.parameter_table import load_of, over_wire, saturating
from switchmark.model.ports import ConnectMode
from switchmark.model.trial import Trial
from switchmark.trial.plan import TrialPlan
from switchmark.trial.wire import bare_wire, judging_wire

CEILING_RUN_S = 3.0  # kept of the saturating run over the wire that a search is bounded by


def baseline_of(plan: TrialPlan, can: Capabilities) -> Trial | None:
    """The trial over the bare wire that judges this one; None for the wire itself.

    Its placement must be the trial's own, with the switch's cores left idle. Between hosts the wire
    is their cable, where that can carry the trial; else it is one on this host."""
    trial, wire = plan.trial, judging_wire(plan)
    if wire is None:
        return None
    changes = over_wire(trial) | dict(wire)
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
    wire = plan.trial.model_copy(update=over_wire(plan.trial) | dict(bare_wire(plan)))
    ends = wire.model_dump(mode="json", include={"port_kind", "io"})
    return load_of(wire, ceiling=True) | ends
