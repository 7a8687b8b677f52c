"""One trial from plan to record, on fakes: the measurement, and every way to fail."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.engine.process import EngineProcess
from switchmark.model.campaign import TrimPolicy
from switchmark.model.value import parse_utc
from switchmark.record import Record
from switchmark.remote.site import FarSide
from switchmark.switch.bess import Bess
from switchmark.switch.fastclick import FastClick
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.snabb import Snabb
from switchmark.switch.support.base import Logging
from switchmark.switch.t4p4s import T4p4s
from switchmark.switch.vpp import Vpp
from switchmark.trial import recording, verification
from switchmark.trial import run as trial_run
from switchmark.trial.evidence import Baseline
from switchmark.trial.plan import TrialPlan
from switchmark.trial.run import run_trial
from tests.unit.trial_fakes import (
    SCRIPTS,
    SESSION,
    STARTED,
    FakeEngine,
    FakeEnvironment,
    FakeSwitch,
    placement,
    plan_for,
    result,
    samples,
    trial,
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fakes answer at once, or never."""
    monkeypatch.setattr("switchmark.trial.connect_mode.PATIENCE_S", 0.05)
    monkeypatch.setattr(verification, "CONVERGENCE_TIMEOUT_S", 0.1)


def run(plan: TrialPlan, baseline: Baseline | None = None) -> Record:
    return run_trial(
        SESSION,
        plan,
        campaign="unit",
        run_id="abc123",
        baseline=baseline or Baseline(forwarded_pps=9000.0, rtt_median_ns=5000.0),
        provenance={"kernel": "fake"},
        observe=lambda _: None,
    )


def test_a_throughput_trial() -> None:
    switch = FakeSwitch(witness=[3])
    record = run(plan_for(switch=switch))
    assert record.status == "finished" and record.message == ""
    assert record.throughput is not None and record.throughput.forwarded_pps == 4500.0
    assert record.limit is not None and record.limit.factor == "switch"
    assert record.verdict is not None and record.verdict.valid
    assert record.verification is not None and record.verification.passed
    assert record.switch_counters_before["witness_rx_frames"] == 6, "with 3 broadcast probes"
    assert record.switch_counters_after["ports"]["1"]["tx_frames"] == 5
    assert [one.role for one in record.engines] == ["sender", "receiver"]
    assert all(len(one.intervals) == 10 for one in record.engines), "raw samples are kept"
    assert record.timing is not None and record.timing.overhead_s >= 0
    assert record.notation.startswith("(D=throughput, ")
    assert (record.connect_mode, record.port_kind, record.io) == ("learning", "veth", "raw-mmsg")
    assert Record.model_validate_json(record.model_dump_json()) == record
    assert switch.log.index("wait_converged") > switch.log.index("ports up")


def test_a_clock_that_is_set_back_keeps_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    real, requested = datetime, []

    class SetBack(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            requested.append(tz)
            return real.now(tz) - timedelta(hours=len(requested))

    for module in (trial_run, recording):
        monkeypatch.setattr(module, "datetime", SetBack)
    record = run(plan_for())
    assert requested, "the record says when it began"
    assert record.status == "finished", record.message
    assert parse_utc(record.started_at) <= parse_utc(record.ended_at)
    failed = recording.failed_record(
        trial(), campaign="c", run_id="r", begun=real.now(UTC), error=OSError("gone")
    )
    assert failed.message == "gone" and failed.ended_at == failed.started_at


def test_the_machine_s_state_is_read_around_the_traffic() -> None:
    record = run(plan_for())
    assert record.state_before is not None
    assert record.state_after is not None
    assert record.state_before.line_ns == record.state_after.line_ns == 30.0
    assert record.state_before.at_ns <= record.state_after.at_ns


def test_a_latency_trial_warms_up_first() -> None:
    environment = FakeEnvironment()
    record = run(plan_for(trial("latency", rate_pps=100), environment=environment))
    assert record.status == "finished", record.message
    assert record.latency is not None and record.latency.count == 200
    starts = [c for c in environment.engines["cl0"].commands if c.startswith("start")]
    assert starts == ["start duration=0.4", "start duration=2.0"]


def test_a_wire_has_no_connect_mode() -> None:
    record = run(plan_for(trial(switch="direct"), FakeSwitch("direct")))
    assert record.status == "finished" and record.connect_mode is None


def own_marks(record: Record) -> list[str]:
    """The marks that are the trial's: how busy this machine is, is measured in earnest."""
    assert record.verdict is not None
    return [mark for mark in record.verdict.marks if mark != "disturbed"]


STEPS = [
    "create tx0",
    "create rx0",
    "spawn rx0",
    "start switch",
    "ports up",
    "wait_converged",
    "counters",
]


@pytest.mark.parametrize("step", STEPS)
def test_whatever_fails_becomes_a_record(step: str) -> None:
    plan = plan_for(switch=FakeSwitch(fail_at=step), environment=FakeEnvironment(fail_at=step))
    record = run(plan)
    assert record.status == "failed" and record.message == f"{step} failed"
    assert record.timing is not None and record.placement is not None


@pytest.mark.parametrize("step", ["stop switch", "close tx0"])
def test_measured_trial_survives_a_tear_down_that_fails(step: str) -> None:
    """Its figures were lost: the trial was recorded as failed."""
    plan = plan_for(switch=FakeSwitch(fail_at=step), environment=FakeEnvironment(fail_at=step))
    record = run(plan)
    assert record.status == "finished" and record.throughput is not None
    assert record.verdict is not None and record.verdict.valid
    assert own_marks(record) == ["leftovers"]
    assert record.verdict.explanations[-1].endswith(f"Reason: {step} failed")
    assert record.engines and record.timing is not None


def test_fault_of_the_bench_ends_one_trial_only() -> None:
    def divides(name: str, engine: FakeEngine) -> None:
        raise ZeroDivisionError("division by zero")

    record = run(plan_for(environment=FakeEnvironment(change=divides)))
    assert record.status == "failed" and record.message is not None
    message = "a fault of the bench itself: ZeroDivisionError: division by zero (test_run.py, "
    assert record.message.startswith(message)


def test_a_switch_that_dies_while_measuring() -> None:
    """It ends at once, with the switch's own words; the engines' samples are kept."""
    switch = FakeSwitch("ovs-dpdk", pids=(1,), dies_after=0)

    def endless(name: str, engine: FakeEngine) -> None:
        engine.answers = {"start": lambda _: [STARTED, *samples(3, rx_frames=1)]}

    record = run(
        plan_for(trial(switch="ovs-dpdk", duration_s=3600), switch, FakeEnvironment(change=endless))
    )
    assert record.status == "failed"
    assert record.message == "ovs-dpdk: was killed by signal 9: its last words"
    assert record.switch_log == "was killed by signal 9: its last words"
    assert all(len(one.intervals) == 3 for one in record.engines)


def test_all_that_a_dead_switch_has_said_is_in_the_record() -> None:
    """The message names the cause; the trace below it is in the record, whole."""

    class Talking(FakeSwitch):
        def output(self) -> str:
            return "".join(f"vpp[7]: #{n}  0x7f f_{n}\n" for n in range(40))

    switch = Talking("ovs-dpdk", fail_at="wait_converged", dies_after=0)
    record = run(plan_for(trial(switch="ovs-dpdk"), switch))
    first, *rest = record.switch_log.splitlines()
    assert first == "was killed by signal 9: its last words" and "#39" not in record.message
    assert len(rest) == 40 and rest[-1] == "vpp[7]: #39  0x7f f_39"
    for real in (Vpp(), Snabb(), FastClick(), Bess(), T4p4s(), OvsDpdk()):
        assert isinstance(real, Logging) and real.output() == "", "it has not started"


def test_a_switch_that_dies_while_it_is_verified() -> None:
    """Engines fall silent when their switch has gone: its death is the reason, not the silence."""
    switch = FakeSwitch("ovs-dpdk", fail_at="wait_converged", dies_after=0)
    record = run(plan_for(trial(switch="ovs-dpdk"), switch))
    assert record.status == "failed"
    assert record.message == (
        "ovs-dpdk: was killed by signal 9: its last words (seen as: wait_converged failed)"
    )
    assert record.switch_log == "was killed by signal 9: its last words"


def test_lost_host_is_the_reason_before_its_engine() -> None:
    """The end of its engine, or what follows from it, can be seen first."""
    lost = "host b (pod shop/db): connection lost: closed"
    far = SimpleNamespace(begin=placement, lost=lost, as_record=lambda: None)
    plan = plan_for(switch=FakeSwitch(fail_at="wait_converged"))
    record = run(replace(plan, far=cast(FarSide, far)))
    assert record.message == f"{lost} (seen as: wait_converged failed)"


def test_a_switch_in_the_kernel_is_asked_after_the_traffic_only() -> None:
    """Asking starts a program, and that would disturb what is measured."""
    requested: list[int] = []

    class Counted(FakeSwitch):
        def alive(self) -> str | None:
            requested.append(1)
            return None

    assert run(plan_for(switch=Counted())).status == "finished"
    assert len(requested) == 1
    dead = run(plan_for(switch=FakeSwitch(dies_after=0)))
    assert dead.status == "failed" and "its last words" in dead.message


def changed(role: str, *lines: str) -> FakeEnvironment:
    """An environment whose engines of this role print other lines."""

    def change(name: str, engine: FakeEngine) -> None:
        if {"tx": "sender", "rx": "receiver"}[name[:2]] == role:
            when = "start" if role == "sender" else "stop"
            before = [STARTED] if role == "sender" else []
            engine.answers = SCRIPTS[role] | {when: lambda _: [*before, *lines]}

    return FakeEnvironment(change=change)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        (
            changed("sender", '{"v": 2, "event": "result", "cpu": {}}'),
            "sender in tx0 printed 'result' with reason: Field required",
        ),
        (changed("sender", "Killed"), "printed a line that is not an event: Killed"),
        (changed("receiver", result(totals={}, loss={"received_unique": 10_001})), "contradict"),
        (
            changed("sender", samples(1, tx_offered=1000)[0].replace("1000,", "-1000,")),
            "printed 'interval' with tx_offered: Input should be greater than or equal to 0",
        ),
    ],
)
def test_wrong_engine_output_fails_the_trial_only(environment: FakeEnvironment, says: str) -> None:
    record = run(plan_for(environment=environment))
    assert record.status == "failed" and says in record.message
    assert "\n" not in record.message


def test_figures_that_the_record_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of the record come last, and refused facts are stored as a failure."""
    from switchmark.trial import throughput

    honest = throughput.measure

    def wrong(*args: Any) -> Any:
        observed = honest(*args)
        observed.figures.throughput.forwarded_l2_bps *= 2
        return observed

    monkeypatch.setattr(throughput, "measure", wrong)
    record = run(plan_for())
    assert record.status == "failed" and record.throughput is None
    assert record.message.startswith("the figures contradict each other: ")
    assert "forwarded_l2_bps" in record.message


def test_unreadable_run_facts_fail_one_trial_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other facts are recorded, and the first failure comes first."""

    def untold(self: object) -> Any:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(EngineProcess, "as_run", untold)
    record = run(plan_for())
    assert record.status == "failed" and record.engines == [] and record.throughput is None
    message = "engines cannot be recorded: a fault of the bench itself: ZeroDivisionError: division"
    assert record.message.startswith(message)
    assert record.loops and record.placement is not None and record.switch_counters_after
    both = run(plan_for(switch=FakeSwitch(fail_at="wait_converged")))
    assert both.message.startswith(f"wait_converged failed; {message}")


@pytest.mark.parametrize("place", ["Deployment", "draw_lines", "judging_wire"])
def test_error_before_deployment_gives_a_record(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("no such thing")

    monkeypatch.setattr(trial_run, place, fails)
    record = run(plan_for())
    assert (record.status, record.message) == ("failed", "no such thing")


def test_facts_that_the_record_refuses_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_run, "loop_costs", lambda _: {"sender": "much"})
    record = run(plan_for())
    assert record.status == "failed" and record.message.startswith(
        "the facts of the programs contradict each other: "
    )
    assert record.trial == plan_for().trial and record.engines == []


def test_bytes_of_no_encoding_in_a_reason() -> None:
    class Odd(FakeSwitch):
        def wait_converged(self) -> None:
            raise OSError("/tmp/\udcff is not there")

    record = run(plan_for(switch=Odd()))
    assert record.message == r"/tmp/\udcff is not there"
    assert Record.model_validate_json(record.model_dump_json()) == record


def test_all_is_taken_down_whatever_cannot_be_asked_any_more() -> None:
    """A dead program may cause any later error."""

    class Broken(FakeSwitch):
        def alive(self) -> str | None:
            raise ZeroDivisionError("division by zero")

    switch = Broken(fail_at="wait_converged")
    record = run(plan_for(switch=switch))
    assert record.message.startswith("wait_converged failed; and taking it down failed: a fault")
    assert switch.log[-5:] == ["end rx0", "end tx0", "stop switch", "close tx0", "close rx0"]


def test_two_faults_are_both_reported() -> None:
    switch = FakeSwitch(fail_at="stop switch", dies_after=0)
    record = run(plan_for(switch=switch))
    assert record.message.endswith("its last words; and taking it down failed: stop switch failed")


def test_interruption_passes_through_and_all_is_undone() -> None:
    class Interrupted(FakeSwitch):
        def wait_converged(self) -> None:
            raise KeyboardInterrupt

    switch = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run(plan_for(switch=switch))
    assert switch.log[-5:] == ["end rx0", "end tx0", "stop switch", "close tx0", "close rx0"]


def test_flooding_during_the_measurement_is_seen() -> None:
    """Before (check), before and after it (counters): a receiver was forgotten meanwhile."""
    record = run(plan_for(switch=FakeSwitch(witness=[0, 0, 0, 0, 0, 5000])))
    assert record.verification is not None and record.verification.passed
    assert record.verdict is not None and own_marks(record) == ["flooding"]
    assert not record.verdict.valid


def test_a_short_window_is_of_a_pair() -> None:
    """Two pairs of four samples are not eight."""
    policy = TrimPolicy(warm_up_s=0.6, cool_down_s=0.6)
    record = run(plan_for(trial(pairs=2), policy=policy))
    assert record.trim is not None and record.trim.samples_kept == 8
    assert record.verdict is not None and "short-window" in record.verdict.marks


def test_counters_that_disagree_are_marked_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The applications say that 900 of 1000 frames arrived, the switch saw none go by."""
    monkeypatch.setattr("switchmark.trial.measure_trial.COUNTERS_SETTLE_S", 0.0)

    def counting(name: str, engine: FakeEngine) -> None:
        script = SCRIPTS["sender" if name.startswith("tx") else "receiver"]
        key, frames = ("tx_offered", 1000) if name.startswith("tx") else ("rx_stream", 900)

        def start(fake: FakeEngine) -> list[str]:
            fake.counts[key] += frames
            return script["start"](fake)

        engine.answers = {**script, "start": start}

    record = run(plan_for(environment=FakeEnvironment(change=counting)))
    assert record.verdict is not None and own_marks(record) == ["counters-disagree"]
    assert record.verdict.valid
    found = record.reconciliation
    assert found is not None and not found.agrees
    assert [(s.place, s.lost) for s in found.paths[0].stages] == [
        ("into the switch", 1000),
        ("in the switch", 0),
        ("out of the switch", -900),
    ]
    assert found.unexplained_frames == 1900


def test_a_switch_in_another_mode_is_not_valid() -> None:
    """It was asked to learn, and sends a broadcast to one port only."""
    switch = FakeSwitch(witness=[3])
    switch.broadcast = lambda frames: None  # type: ignore[method-assign]
    record = run(plan_for(switch=switch))
    assert record.verdict is not None and own_marks(record) == ["wrong-connect-mode"]
    assert not record.verdict.valid
    assert (
        record.verification is not None and "learning was asked for" in record.verification.message
    )


def test_a_sender_that_ran_too_long_is_marked() -> None:
    environment = changed(
        "sender",
        *samples(13, tx_offered=1000, tx_polls=50),
        result(duration_s=2.6, totals={"tx_offered": 13_000}),
    )
    record = run(plan_for(environment=environment))
    assert record.verdict is not None and "duration-stretched" in record.verdict.marks
    assert record.verdict.valid


def test_figures_of_an_engine_built_for_tests_are_not_valid() -> None:
    record = run(plan_for(environment=FakeEnvironment(fast_engines=False)))
    assert record.verdict is not None and "slow-engine-build" in record.verdict.marks
    assert not record.verdict.valid
    record = run(plan_for(environment=FakeEnvironment()))
    assert record.verdict is not None and "slow-engine-build" not in record.verdict.marks


def test_a_partial_result_is_kept_and_marked() -> None:
    went = "port 0 (raw:dev=eth0): its peer or device went away during the trial"
    environment = changed(
        "sender",
        *samples(10, tx_offered=1000, tx_polls=50),
        result(totals={"tx_offered": 10_000}, partial=True, fault=went),
    )
    record = run(plan_for(environment=environment))
    assert record.faults == [f"sender in tx0: {went}"]
    assert record.engines[0].result["partial"] is True
    assert record.verdict is not None and "partial" in record.verdict.marks
    assert not record.verdict.valid


def test_counters_that_contradict_each_other_are_kept_and_marked() -> None:
    loss = {"sent": 10_000, "received_unique": 10_001, "last_sequence": 10_000, "expected": 10_001}
    environment = changed(
        "receiver",
        *samples(10, rx_frames=1000, useful_polls=50),
        result(totals={"rx_frames": 10_001}, loss=loss),
    )
    record = run(plan_for(environment=environment))
    assert record.contradictions == [
        "receiver in rx0: 10001 different frames of the load arrived, numbered up to 10000, of "
        "10000 that were sent"
    ]
    assert record.verdict is not None and "contradictory-counts" in record.verdict.marks
    assert not record.verdict.valid


def test_a_loss_that_is_known_between_bounds_is_marked() -> None:
    loss = {
        "sent": 10_000, "received_unique": 9_000, "expected": 10_000, "lost": 1_000,
        "lost_at_least": 993, "beyond_window": 5, "early": 2,
    }  # fmt: skip
    environment = changed(
        "receiver",
        *samples(10, rx_frames=900, useful_polls=50),
        result(totals={"rx_frames": 9_000}, loss=loss),
    )
    record = run(plan_for(environment=environment))
    assert record.uncertain_losses == [
        "receiver in rx0: 5 frames of the load arrived too late, and 2 too early, to distinguish "
        "them from copies: between 993 and 1000 frames were lost"
    ]
    assert record.verdict is not None and "uncertain-loss" in record.verdict.marks
    assert record.verdict.valid


def test_a_fault_of_the_warm_up_is_not_the_measurement_s() -> None:
    def change(name: str, engine: FakeEngine) -> None:
        script, went = SCRIPTS["client"], '"partial": true, "fault": "port 0: took nothing"'

        def start(fake: FakeEngine) -> list[str]:
            lines = script["start"](fake)
            first = sum(line.startswith("start") for line in fake.commands) == 1
            return [one.replace('"reason"', f'{went}, "reason"') if first else one for one in lines]

        if name.startswith("cl"):
            engine.answers = {**script, "start": start}

    record = run(
        plan_for(trial("latency", rate_pps=100), environment=FakeEnvironment(change=change))
    )
    assert record.status == "finished", record.message
    assert record.faults == []
    assert record.verdict is not None and "partial" not in record.verdict.marks
