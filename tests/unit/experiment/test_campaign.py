"""A campaign with fakes: order, resuming, failures, the remaining time."""

from __future__ import annotations

import errno
import gc
import json
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from switchmark.campaign.overhead import usual_around_s
from switchmark.environment.vm import accelerator, packages
from switchmark.environment.vm.accelerator import Accelerator
from switchmark.environment.vm.command import EMULATED
from switchmark.errors import SwitchmarkError
from switchmark.experiment import campaign, retry_disturbed, time_left
from switchmark.experiment.campaign import run_campaign, without_collections
from switchmark.experiment.certified import Certificates
from switchmark.experiment.steps import Step
from switchmark.experiment.time_left import TimeLeft, measuring_time_s
from switchmark.model.trial import Trial
from switchmark.record import Record, Timing
from switchmark.remote.site import FarSide
from switchmark.results.run_directory import Run
from switchmark.switch.registry import usual_overhead_s
from switchmark.trial import verification
from switchmark.trial.plan import TrialPlan
from tests.unit.records import synthetic_failure, synthetic_record, synthetic_trial
from tests.unit.trial_fakes import SESSION, FakeEnvironment, FakeSwitch, plan_for, trial


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "CONVERGENCE_TIMEOUT_S", 0.05)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with new_run(tmp_path) as run:
        yield run


def new_run(root: Path) -> Run:
    return Run.create(root, campaign="unit", campaign_text="x", definition={}, settings={}, host={})


@dataclass
class Watcher:
    """An observer that stores the events, and the number of stored records at each trial."""

    run: Run
    events: list[str] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    left_s: list[float] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        self.events.append(f"{number}/{total} {plan.trial.switch} {plan.trial.packet_size_bytes}")
        self.stored.append(len(self.run.paths()))
        self.left_s.append(left_s)

    def live(self, forwarded_pps: float | None) -> None:
        pass

    def trial_ended(self, record: Record) -> None:
        assert self.run.read(record.trial_id) == record, "it is stored before the observer gets it"
        self.records.append(record)


def step(size: int = 64, baseline: Trial | None = None, fail_at: str = "", **changes: Any) -> Step:
    planned = trial(packet_size_bytes=size, **changes)
    switch = FakeSwitch(planned.switch, fail_at=fail_at)
    return Step(plan_for(planned, switch, FakeEnvironment()), baseline)


def go(run: Run, steps: list[Step]) -> tuple[list[Record], Watcher]:
    watcher = Watcher(run)
    run_campaign(SESSION, run, "unit", steps, lambda: {"kernel": "fake"}, watcher)
    return watcher.records, watcher


def test_each_record_is_stored_before_the_next_trial_begins(run: Run) -> None:
    records, watcher = go(run, [step(64), step(128), step(256)])
    assert watcher.stored == [0, 1, 2]
    assert watcher.events == ["1/3 linux-bridge 64", "2/3 linux-bridge 128", "3/3 linux-bridge 256"]
    assert [record.status for record in records] == ["finished"] * 3
    for path in run.paths():
        assert json.loads(path.read_text())["provenance"] == {"kernel": "fake"}


def test_disturbed_trial_is_measured_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is repeated up to the limit, and one record is stored."""
    monkeypatch.setattr(retry_disturbed, "is_disturbed", lambda record: True)
    watcher = Watcher(run)
    steps = [step(64), step(128)]
    run_campaign(SESSION, run, "unit", steps, dict, watcher, repeat_disturbed=2)
    records = watcher.records
    assert [len(record.attempts) for record in records] == [3, 3]
    assert watcher.events == ["1/2 linux-bridge 64", "2/2 linux-bridge 128"]
    assert list(run.records()) == records


def test_campaign_stops_before_refused_trial(run: Run) -> None:
    """The next run continues there."""
    watcher, steps = Watcher(run), [step(64), step(128), step(256)]
    sizes: list[int] = []

    def may_begin(item: Trial) -> bool:
        sizes.append(item.packet_size_bytes)
        return len(sizes) < 3

    def measure() -> bool:
        return run_campaign(SESSION, run, "unit", steps, dict, watcher, may_begin=may_begin)

    assert not measure() and len(run.paths()) == 2
    sizes.clear()
    assert measure() and sizes == [256], "nothing is measured twice"
    assert [item.trial.packet_size_bytes for item in watcher.records] == [64, 128, 256]


def test_failed_trial_does_not_stop_the_others(run: Run) -> None:
    records, _ = go(run, [step(64), step(128, fail_at="start switch"), step(256)])
    assert [record.status for record in records] == ["finished", "failed", "finished"]
    assert records[1].message == "start switch failed"


@pytest.mark.parametrize("place", ["_baseline", "_for_one_run", "provenance", "certificates"])
def test_failure_around_a_trial_does_not_stop_the_others(
    run: Run, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def once(*_: object) -> Any:
        calls.append(place)
        if len(calls) == 1:
            raise OSError("an odd answer")
        return honest(*_)

    honest: Any = {"provenance": dict, "certificates": lambda record: record}.get(place)
    if honest is None:
        honest = getattr(campaign, place)
        monkeypatch.setattr(campaign, place, once)
    provenance: Any = once if place == "provenance" else dict
    certificates = Certificates(Path("/nonexistent"), {})
    attach = once if place == "certificates" else lambda record: record
    monkeypatch.setattr(Certificates, "attach", lambda _, record: attach(record))
    watcher = Watcher(run)
    run_campaign(
        SESSION, run, "unit", [step(64), step(128)], provenance, watcher, certificates=certificates
    )
    assert [item.status for item in watcher.records] == ["failed", "finished"]
    assert watcher.records[0].message == "an odd answer"


def test_record_that_is_not_json_is_a_failed_trial(run: Run) -> None:
    odd = iter([object(), 1, 2])
    watcher = Watcher(run)
    provenance = lambda: {"odd": next(odd)}  # noqa: E731
    run_campaign(SESSION, run, "unit", [step(64), step(128)], provenance, watcher)
    assert [item.status for item in watcher.records] == ["failed", "finished"]
    assert "not written" in watcher.records[0].message


def test_full_disk_ends_the_campaign(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SwitchmarkError, match=r"No space left.*--resume goes on"):
        go(run, [step(64), step(128)])
    assert run.paths() == []


def test_only_missing_trials_run_again(run: Run) -> None:
    first, _ = go(run, [step(64), step(128, fail_at="wait_converged")])
    path = run.path_of(first[0].trial_id)
    before = path.stat()
    records, watcher = go(run, [step(64), step(128), step(256)])
    assert watcher.events == ["2/3 linux-bridge 128", "3/3 linux-bridge 256"]
    assert [record.trial.packet_size_bytes for record in records] == [128, 256]
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert run.read(first[1].trial_id).status == "finished"
    assert [record.message for record in run.earlier_failures()] == ["wait_converged failed"]


def test_finished_campaign_measures_nothing(run: Run) -> None:
    go(run, [step(64)])
    records, watcher = go(run, [step(64)])
    assert records == [] and watcher.events == []


def test_interruption_keeps_finished_trials(run: Run) -> None:
    class Interrupted(FakeSwitch):
        def wait_converged(self) -> None:
            raise KeyboardInterrupt

    broken = Step(plan_for(trial(packet_size_bytes=128), Interrupted(), FakeEnvironment()), None)
    with pytest.raises(KeyboardInterrupt):
        go(run, [step(64), broken, step(256)])
    assert [record.trial.packet_size_bytes for record in run.records()] == [64]


def test_trials_are_judged_by_their_stored_baseline(run: Run) -> None:
    """The fake baseline forwards 4500/s, as the trial does."""
    wire = step(64, switch="direct")
    _, judged = go(run, [wire, step(64, baseline=wire.plan.trial)])[0]
    assert judged.limit is not None and judged.limit.factor == "generator"
    assert "100% of the baseline" in judged.limit.evidence
    assert judged.verdict is not None and "no-baseline" not in judged.verdict.marks


@pytest.mark.parametrize("fault", ["fails", "floods", "missing"])
def test_invalid_baseline_is_not_used(run: Run, fault: str) -> None:
    wire = step(64, switch="direct", fail_at="wait_converged" if fault == "fails" else "")
    if fault == "floods":
        wire.plan.switch.witness = [0, 5, 10, 15, 20, 25, 30, 35]  # type: ignore[attr-defined]
    steps = [step(64, baseline=wire.plan.trial)]
    records, _ = go(run, steps if fault == "missing" else [wire, *steps])
    judged = records[-1]
    assert judged.status == "finished"
    assert judged.verdict is not None and "no-baseline" in judged.verdict.marks
    if fault == "floods":
        assert records[0].verdict is not None and records[0].verdict.marks[0] == "flooding"


def test_latency_trial_takes_a_separate_warm_up() -> None:
    assert measuring_time_s(step(64, duration_s=7.0).plan) == 7.0
    latency = Step(
        plan_for(trial("latency", duration_s=7.0), FakeSwitch(), FakeEnvironment()), None
    )
    assert measuring_time_s(latency.plan) == 7.4, "the warm-up is a separate run"


def overhead(switch: str, seconds: float) -> Record:
    timing = Timing(deploy_s=0, verify_s=0, measure_s=2, teardown_s=0, overhead_s=seconds)
    return synthetic_record(synthetic_trial(switch=switch), timing=timing)


def test_time_left_uses_overhead_of_finished_trials() -> None:
    bridge = [step(size) for size in (64, 128, 256)]
    other = [step(size, switch="ovs-dpdk") for size in (64, 128, 256)]
    left = TimeLeft([*bridge, *other])
    block_s = usual_overhead_s("linux-bridge") + usual_overhead_s("ovs-dpdk")
    assert left.estimate_s() == pytest.approx(6 * 2.0 + 3 * block_s)
    left.done(bridge[0], overhead("linux-bridge", 0.25))
    left.done(bridge[1], overhead("linux-bridge", 0.75))
    times = usual_overhead_s("ovs-dpdk") / usual_overhead_s("linux-bridge")
    factor_s = 2.5 + 3 * (2.0 + 0.5 * times)
    assert left.estimate_s() == pytest.approx(factor_s), "other switches have the common factor"
    left.done(other[0], overhead("ovs-dpdk", 3.5))
    assert left.estimate_s() == pytest.approx(2.5 + 2 * 5.5)
    left.done(other[1], synthetic_failure(synthetic_trial(switch="ovs-dpdk")))
    assert left.estimate_s() == pytest.approx(2.5 + 5.5), (
        "a record without a timing changes nothing"
    )
    left.done(bridge[2], overhead("linux-bridge", 0.5))
    left.done(other[2], overhead("ovs-dpdk", 3.5))
    assert left.estimate_s() == 0.0


def test_time_left_of_guests_depends_on_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """This applies before any trial, and after trials of shorter chains."""
    monkeypatch.setattr(accelerator, "known", lambda _qemu: Accelerator(EMULATED, "no /dev/kvm"))
    monkeypatch.setattr(packages, "qemu", lambda: None)
    chain = {"environment": "qemu", "switch": "ovs-netdev"}
    short, long = (step(64, scenario="loopback-2", pairs=n, **chain) for n in (1, 4))
    assert 7 < usual_around_s(short.plan.trial) < 9 and 28 < usual_around_s(long.plan.trial) < 34
    left = TimeLeft([short, short, long])
    took = overhead("ovs-netdev", 3 * usual_around_s(short.plan.trial))
    left.done(short, took)
    around_s = 3 * (usual_around_s(short.plan.trial) + usual_around_s(long.plan.trial))
    assert left.estimate_s() == pytest.approx(4.0 + around_s)


def test_time_left_reads_each_plan_twice(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of an estimate does not depend on the number of trials. Each plan is read at the
    start and at its removal."""
    sizes: list[int] = []

    def counted(plan: TrialPlan) -> float:
        sizes.append(plan.trial.packet_size_bytes)
        return 1.0

    monkeypatch.setattr(time_left, "measuring_time_s", counted)
    steps = [step(64 + k) for k in range(12)]
    go(run, steps)
    assert sorted(sizes) == sorted(2 * [64 + k for k in range(12)])


def test_time_left_decreases(run: Run) -> None:
    _, watcher = go(run, [step(64), step(128), step(256)])
    assert watcher.left_s[0] == pytest.approx(3 * (2.0 + usual_overhead_s("linux-bridge")))
    assert watcher.left_s[0] > watcher.left_s[1] > watcher.left_s[2] >= 2.0


def test_stored_record_is_not_kept_in_memory(run: Run) -> None:
    class Looks(Watcher):
        ended: ClassVar[list[weakref.ref[Record]]] = []

        def trial_ended(self, record: Record) -> None:
            gc.collect()
            assert [item() for item in self.ended] == [None] * len(self.ended)
            self.ended.append(weakref.ref(record))

    run_campaign(SESSION, run, "unit", [step(64), step(128), step(256)], dict, Looks(run))
    assert len(Looks.ended) == 3


def test_garbage_is_collected_before_the_next_trial(run: Run) -> None:
    """Earlier objects are excluded from collections until the end of the campaign."""

    class Left:
        itself: Left

    class Looks(Watcher):
        left: ClassVar[list[weakref.ref[Left]]] = []
        frozen: ClassVar[list[bool]] = []

        def trial_begins(self, *_: Any) -> None:
            assert [item() for item in self.left] == [None] * len(self.left)
            self.frozen.append(gc.get_freeze_count() > 0)

        def trial_ended(self, record: Record) -> None:
            left = Left()
            left.itself = left
            self.left.append(weakref.ref(left))

    gc.disable()
    try:
        run_campaign(SESSION, run, "unit", [step(64), step(128)], dict, Looks(run))
        assert gc.get_freeze_count() == 0
        with without_collections():
            run_campaign(SESSION, run, "unit", [step(256)], dict, Looks(run))
            assert gc.get_freeze_count() > 0, "the outer context decides"
    finally:
        gc.enable()
    assert Looks.frozen == [True] * 3 and gc.get_freeze_count() == 0


def test_state_of_a_switch_is_not_kept_with_its_plan(run: Run) -> None:
    steps = [step(64), step(128)]
    go(run, steps)
    assert len(run.paths()) == 2
    assert [getattr(item.plan.switch, "ports", "?") for item in steps] == [None, None]


def test_state_of_remote_host_is_not_kept_with_its_plan(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody: Any = None
    far, between = FarSide(nobody, nobody, "netns", "netns", nobody), step(64)

    def run_trial(session: object, plan: TrialPlan, **_: object) -> Record:
        assert plan.far is not None
        plan.far.placement = plan.placement
        return synthetic_record(plan.trial)

    monkeypatch.setattr(campaign, "run_trial", run_trial)
    go(run, [replace(between, plan=replace(between.plan, far=far))])
    assert far.placement is None


def test_records_are_read_one_at_a_time(run: Run) -> None:
    go(run, [step(64), step(128), step(256)])
    ended = [weakref.ref(record) for record in run.records()]
    gc.collect()
    assert [item() for item in ended] == [None] * 3


@pytest.mark.parametrize(("planned", "judges"), [(2048, True), (None, True), (4, False)])
def test_baseline_with_other_pages_is_not_used(
    run: Run, monkeypatch: pytest.MonkeyPatch, planned: int | None, judges: bool
) -> None:
    """This happens if a run is resumed with another page size."""
    wire = synthetic_record(synthetic_trial(switch="direct"), marks=[], page_size_kib=2048)
    run.write(wire)
    monkeypatch.setattr(campaign, "planned_kib", lambda _: planned)
    found = campaign._baseline(run, step(64, baseline=wire.trial), None)
    assert (found.forwarded_pps is not None) is judges
