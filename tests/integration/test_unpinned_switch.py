"""An unpinned switch through the whole bench: the kernel allows every thread of it on every core
while traffic flows; in comparison, a pinned switch. A quota limits both to one core, and has as
many cores as for a pinned switch."""

from __future__ import annotations

import os

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.host.kernel.procfs import threads_of
from switchmark.host.session import open_session
from switchmark.record import Record
from switchmark.trial.evidence import Baseline
from switchmark.trial.run import run_trial
from tests.integration.machine import needs_root
from tests.integration.main_job import ATTEMPTS, STARVED
from tests.integration.truth_rig import reference

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("module_state_dir"),
    needs_root,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is none to move over"),
]
SHORT = {"duration": "600ms", "trim.warm_up": "100ms", "trim.cool_down": "100ms"}


def run(switch_cpus: str) -> tuple[Record, set[frozenset[int]]]:
    """Return a trial that had its cores, and the cores that the kernel allowed the switch's threads
    meanwhile."""
    for _ in range(ATTEMPTS):
        record, allowed = run_once(switch_cpus)
        if not record.message.startswith(STARVED):
            return record, allowed
    pytest.skip(f"machine too busy: {record.message}")


def run_once(switch_cpus: str) -> tuple[Record, set[frozenset[int]]]:
    """Run one trial."""
    options = {"rate": "2k", "burst": "1", "cpu_limit": "50%", **SHORT}
    plan = plan_for(reference(), switch_cpus=switch_cpus, **options)
    allowed: set[frozenset[int]] = set()

    def look(_: float | None) -> None:
        for thread in threads_of(plan.switch.process_ids()):
            allowed.add(frozenset(os.sched_getaffinity(thread)))

    with open_session(measuring=False) as session:
        record = run_trial(
            session, plan, campaign="unpinned", run_id="abc123", baseline=Baseline(),
            provenance={}, observe=look,
        )  # fmt: skip
    return record, allowed


@pytest.mark.parametrize("switch_cpus", ["auto", "any"])
def test_kernel_moves_an_unpinned_switch_only(switch_cpus: str) -> None:
    record, allowed = run(switch_cpus)
    assert record.status == "finished", record.message
    assert record.placement is not None and record.cpu_quota is not None
    free = record.placement.switch_free_cores
    assert record.cpu_quota.cores == 0.5 * len(record.placement.switch_cores)
    if switch_cpus == "any":
        assert len(free) >= 2 and allowed == {frozenset(free)}
        assert record.switch_details["pinning"].startswith("none: ")
        assert "switch_cpus=any" in record.notation and "not pinned" in record.placement.reason
    else:
        assert free == [] and "pinning" not in record.switch_details
        assert allowed == {frozenset(record.placement.switch_cores)}
