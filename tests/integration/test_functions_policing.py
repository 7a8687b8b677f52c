"""The measured check of policers in every switch that has one. Two busy loops share the cores with
switch and testers: a right policer still passes, and a CIR that is 5 % off is found."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from subprocess import Popen

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.errors import TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.host.session import open_session
from switchmark.record.function import Policing
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.base import PerformsFunctions
from switchmark.trial.deployment import Deployment
from switchmark.trial.policing import measure_policing
from switchmark.trial.policing_judge import TOLERANCE
from switchmark.trial.verification import wait_reachable
from tests.function_mutations import WRONG_RATES, Mutation
from tests.integration.machine import needs_root
from tests.integration.main_job import SHORT, Bench, settings

pytestmark = [pytest.mark.integration, needs_root]

POLICED = sorted(name for name in SWITCHES if "policer" in SWITCHES[name]().capabilities.functions)
# The bucket takes 0.4 s to fill, so that stalls of the machine lose no tokens.
POLICER = {"cir": "20M", "cbs": "1M", "packet_size": "1024"}
MOST_CHECKS = 10
Change = Callable[[FunctionTable], FunctionTable]
BUSY_LOOP = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@pytest.fixture
def busy_cores() -> Iterator[None]:
    """Run a busy loop on each core."""
    with ExitStack() as stack:
        for core in sorted(os.sched_getaffinity(0)):
            loop = stack.enter_context(Popen([sys.executable, "-c", BUSY_LOOP, str(core)]))
            stack.callback(loop.kill)
        yield


def stopped(table: FunctionTable) -> FunctionTable:
    """Return the table with a CIR at which a frame takes seconds, and a burst of three frames."""
    assert table.policer is not None
    return replace(table, policer=replace(table.policer, cir_bps=2_000, cbs_bytes=3 * 1514))


def measured(name: str, change: Change = lambda table: table, **policer: str) -> Policing:
    """Deploy a switch with a changed table, and measure its policer by the right one."""
    switch = SWITCHES[name]()
    if not switch.availability().available:
        pytest.skip(f"{name}: {switch.availability().reason}")
    assert isinstance(switch, PerformsFunctions)
    start = switch.start

    def start_changed(*arguments: object) -> None:
        assert switch.function_table is not None
        switch.function_table = change(switch.function_table)
        start(*arguments)  # type: ignore[arg-type]

    switch.start = start_changed  # type: ignore[method-assign, assignment]
    base = {"function": "forward+policer"}
    if name == "linux-router":
        base = {"function": "route+policer", "routes": "10"}
    plan = plan_for(switch, **base, **(POLICER | policer))
    table = plan.function_table()
    assert table is not None
    with open_session(measuring=False) as session, Deployment(session, plan) as deployment:
        wait_reachable(deployment.ends, plan.verify.timeout_s)
        running, streams = deployment.switch, deployment.streams
        running.wait_converged()
        for _ in range(MOST_CHECKS):  # further programs may leave the senders too little time
            note = measure_policing(running, table, streams, deployment.check_alive)
            assert note is not None
            if note.unjudged is None:
                return note
    pytest.skip(f"{name}: none of {MOST_CHECKS} checks could judge the policer: {note.unjudged}")


@pytest.mark.usefixtures("state_dir")
def test_meter_that_drops_everything_is_found_far_below_its_rate() -> None:
    """The senders do not reach the CIR, so no other part of the check finds it."""
    with pytest.raises(TrialFailed, match=r"forwarded 100.0% fewer frames"):
        measured("linux-bridge", stopped, cir="16G", cbs="4M", packet_size="1518")


@pytest.mark.alone
@pytest.mark.usefixtures("state_dir", "busy_cores")
@pytest.mark.parametrize("switch", POLICED)
def test_right_policer_passes_on_a_busy_machine(switch: str) -> None:
    note = measured(switch)
    assert note.error is not None and abs(note.error) <= TOLERANCE


@pytest.mark.alone
@pytest.mark.usefixtures("state_dir", "busy_cores")
@pytest.mark.parametrize("error", WRONG_RATES, ids=lambda error: error.name)
@pytest.mark.parametrize("switch", POLICED)
def test_planted_error_is_found(switch: str, error: Mutation) -> None:
    with pytest.raises(TrialFailed, match=error.message):
        measured(switch, error.change)


@pytest.mark.alone
def test_wrong_policer_fails_a_whole_trial(bench: Bench) -> None:
    """The command `trial` makes the check, and gives no figure."""
    error = WRONG_RATES[0]
    planting = replace(bench, program=("-m", "tests.integration.planted_error", error.name))
    options = settings(
        *SHORT, "function=forward+policer", *(f"{k}={v}" for k, v in POLICER.items())
    )
    code, _, err = planting.run_to_the_end("trial", "linux-bridge", "--no-baseline", *options)
    assert code == 1, err
    (record,) = bench.records()
    assert record.status == "failed"
    assert "does not keep the rate of its policer" in (record.message or "")
