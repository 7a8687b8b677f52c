"""One trial from description to record: deploy, verify, measure, judge, tear down.

Whatever goes wrong ends in a record that says so; only the user's own interruption passes
through. The bench's time around the measurement is taken here and kept in the record.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

from switchmark.host.cores.affinity import restricted_to
from switchmark.host.host import Session
from switchmark.model.choices import OWN_ENGINE, WIRE
from switchmark.model.topology import NodePlace
from switchmark.record import Figures, Placement, Record
from switchmark.scenario.support.draw import draw_lines
from switchmark.trial.deployment import Deployment
from switchmark.trial.evidence import Baseline
from switchmark.trial.failure import one_line, why
from switchmark.trial.measuring import measure_deployed
from switchmark.trial.page_size import planned_kib, used_kib
from switchmark.trial.plan import TrialPlan
from switchmark.trial.quality import loop_costs
from switchmark.trial.recording import as_failed, made_record, what_was_asked
from switchmark.trial.stopwatch import Stopwatch
from switchmark.trial.wire import judging_wire


def run_trial(
    session: Session,
    plan: TrialPlan,
    *,
    campaign: str,
    run_id: str,
    baseline: Baseline,
    provenance: dict[str, Any],
    observe: Callable[[float | None], None],
) -> Record:
    """Run one trial and return its record, finished or failed."""
    only = plan.placement.only_cores
    with (
        restricted_to(only) if only else nullcontext()
    ):  # all programs inherit the mask of the bench
        return _run_placed(session, plan, campaign, run_id, baseline, provenance, observe)


def _run_placed(
    session: Session,
    plan: TrialPlan,
    campaign: str,
    run_id: str,
    baseline: Baseline,
    provenance: dict[str, Any],
    observe: Callable[[float | None], None],
) -> Record:
    watch, begun, figures = Stopwatch(), datetime.now(UTC), Figures()
    facts = what_was_asked(plan.trial, campaign, run_id, begun)
    try:
        facts |= _planned(plan) | {"provenance": provenance}
        deployment = Deployment(session, plan)
    except Exception as error:
        return made_record(figures, as_failed(facts, why([], error)), begun, watch)
    try:
        with deployment:
            watch.lap("deploy")
            figures, measured = measure_deployed(deployment, plan, baseline, watch, observe)
            facts |= measured
            watch.lap("finish")
        watch.lap("teardown")
        facts["status"] = "finished"
    except Exception as error:  # whatever it is, the campaign's other trials go on
        watch.lap("teardown")
        words = deployment.running_switch.last_words
        died = f"{plan.switch.name}: {words}" if words else ""
        log = deployment.running_switch.log
        facts = as_failed(facts, why([died, *deployment.faults()], error)) | {"switch_log": log}
    for name, tell in _as_it_ran(deployment, plan).items():
        try:
            facts[name] = tell()
        except Exception as error:  # the other facts are told all the same
            facts = as_failed(facts, f"{name} cannot be recorded: {one_line(error)}")
    return made_record(figures, facts, begun, watch)


def _planned(plan: TrialPlan) -> dict[str, Any]:
    """The facts that the plan decides."""
    return {
        "connect_mode": None if plan.trial.switch == WIRE else plan.mode.value,
        "port_kind": plan.port_kind.value,
        "io": plan.io.value,
        "page_size_kib": planned_kib(plan),
        "bare_wire": judging_wire(plan),
        "placement": _as_it_was(plan),
        "topology": draw_lines(plan.topology, plan.labels()),
        "wire_ends": [
            node.name
            for node in plan.topology.nodes
            if node.place is NodePlace.WIRE and node.nic is None
        ],
    }


def _as_it_was(plan: TrialPlan) -> Placement:
    """The placement as it was: a foreign instrument has its own idle strategy."""
    if plan.trial.generator == OWN_ENGINE:
        return plan.placement
    return plan.placement.model_copy(update={"idle": f"{plan.trial.generator}'s own"})


def _as_it_ran(deployment: Deployment, plan: TrialPlan) -> dict[str, Callable[[], Any]]:
    """The facts of what ran, whether or not the trial came to its end."""
    guest, far = deployment.guest, plan.far
    return {
        "far_host": lambda: far.as_record() if far else None,
        "page_size_kib": lambda: used_kib(plan, deployment.engines),
        "machines": lambda: deployment.machine_details,
        "engines": lambda: (
            guest.as_runs() if guest else [one.as_run() for one in deployment.engines]
        ),
        "faults": deployment.faults,
        "contradictions": deployment.contradictions,
        "uncertain_losses": deployment.uncertain_losses,
        "loops": lambda: loop_costs(deployment.engines),
        "vnfs": lambda: [vnf.as_run() for vnf in deployment.vnfs],
    }
