"""The baseline of a trial: the same trial without a switch, on the same cores.

The table of parameters lists the values that differ in a baseline, and trial/wire.py its location.
This file sets the values that depend on the trial's cores.
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

CEILING_RUN_S = 3.0  # measured window of the saturating baseline of a search


def baseline_of(plan: TrialPlan, capabilities: Capabilities) -> Trial | None:
    """Return the baseline of a trial; None for a baseline itself.

    Its placement is that of the trial, with idle cores instead of the switch. Between hosts, the
    baseline uses their cable if the cable can carry the trial, and otherwise this host alone."""
    trial, wire = plan.trial, judging_wire(plan)
    if wire is None:
        return None
    changes = over_wire(trial) | dict(wire)
    if trial.method != PLAIN:  # the baseline of a method of many trials is one saturating trial
        trimmed_s = plan.policy.warm_up_s + plan.policy.cool_down_s
        changes |= saturating() | {"duration_s": trimmed_s + CEILING_RUN_S}
    return trial.model_copy(
        update=changes
        | {
            "switch": WIRE,
            "connect_mode": ConnectMode.CROSS_CONNECT,
            "spare_cores": 0 if capabilities.in_kernel else trial.switch_cores,
        }
    )


def load_at(plan: TrialPlan) -> dict[str, Any]:
    """Return the parameters that a trial and its baseline share."""
    wire = plan.trial.model_copy(update=over_wire(plan.trial) | dict(bare_wire(plan)))
    ends = wire.model_dump(mode="json", include={"port_kind", "io"})
    return load_of(wire, ceiling=True) | ends
