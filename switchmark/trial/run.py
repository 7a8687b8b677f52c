"""One trial from description to record: deploy, verify, measure, judge, tear down.

Every error leads to the record of a failed trial, except an interruption by the user. The record
also has the time that the bench needed besides the measurement.
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
from switchmark.record import EngineRun, Placement, Record
from switchmark.scenario.support.draw import draw_lines
from switchmark.trial.deployment import Deployment
from switchmark.trial.evidence import Baseline
from switchmark.trial.measure_trial import measure_deployed
from switchmark.trial.page_size import planned_kib, used_kib
from switchmark.trial.plan import TrialPlan
from switchmark.trial.quality import loop_costs
from switchmark.trial.recording import (
    PlannedFacts,
    RecordDraft,
    RequestedFacts,
    RunFacts,
    why_failed,
    with_leftovers,
)
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
    # All programs inherit the CPU mask of the bench.
    with restricted_to(only) if only else nullcontext():
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
    begun = datetime.now(UTC)
    draft = RecordDraft(RequestedFacts.of(plan.trial, campaign, run_id, begun), begun)
    try:
        draft.planned = _planned(plan, provenance)
        deployment = Deployment(session, plan)
    except Exception as error:
        draft.failures.append(why_failed([], error))
        return draft.finish()
    log = ""
    try:
        with deployment:
            draft.watch.lap("deploy")
            draft.figures, draft.measured = measure_deployed(
                deployment, plan, baseline, draft.watch, observe
            )
            draft.watch.lap("finish")
        draft.watch.lap("teardown")
    except Exception as error:  # the other trials of the campaign still run
        draft.watch.lap("teardown")
        if draft.measured is not None:  # only the tear-down failed
            draft.measured = with_leftovers(draft.measured, error)
        else:
            reason = deployment.running_switch.death
            died = f"{plan.switch.name}: {reason}" if reason else ""
            log = deployment.running_switch.log
            lost = plan.far.lost if plan.far else ""
            draft.failures.append(why_failed([died, lost, *deployment.faults()], error))
    draft.ran = _ran(draft, deployment, plan, log)
    return draft.finish()


def _planned(plan: TrialPlan, provenance: dict[str, Any]) -> PlannedFacts:
    """Return the facts that the plan decides."""
    return PlannedFacts(
        connect_mode=None if plan.trial.switch == WIRE else plan.mode.value,
        port_kind=plan.port_kind.value,
        io=plan.io.value,
        page_size_kib=planned_kib(plan),
        bare_wire=judging_wire(plan),
        placement=_placement(plan),
        topology=draw_lines(plan.topology, plan.labels()),
        wire_ends=[
            node.name
            for node in plan.topology.nodes
            if node.place is NodePlace.WIRE and node.nic is None
        ],
        provenance=provenance,
    )


def _placement(plan: TrialPlan) -> Placement:
    """Return the placement of the record. A foreign generator has its own idle strategy."""
    if plan.trial.generator == OWN_ENGINE:
        return plan.placement
    return plan.placement.model_copy(update={"idle": f"{plan.trial.generator}'s own"})


def _ran(draft: RecordDraft, deployment: Deployment, plan: TrialPlan, log: str) -> RunFacts:
    """Return the facts of the programs that ran, also if the trial failed."""
    guest, far, fact = deployment.guest, plan.far, draft.fact
    planned = draft.planned.page_size_kib if draft.planned else None

    def engines() -> list[EngineRun]:
        return guest.as_runs() if guest else [one.as_run() for one in deployment.engines]

    return RunFacts(
        far_host=fact("far_host", lambda: far.as_record() if far else None, None),
        page_size_kib=fact("page_size_kib", lambda: used_kib(plan, deployment.engines), planned),
        machines=fact("machines", lambda: deployment.machine_details, {}),
        engines=fact("engines", engines, []),
        faults=fact("faults", deployment.faults, []),
        contradictions=fact("contradictions", deployment.contradictions, []),
        uncertain_losses=fact("uncertain_losses", deployment.uncertain_losses, []),
        loops=fact("loops", lambda: loop_costs(deployment.engines), {}),
        vnfs=fact("vnfs", lambda: [vnf.as_run() for vnf in deployment.vnfs], []),
        switch_log=log,
    )
