"""A run stops after failures that the place causes; a contender that cannot start is left out."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from switchmark.campaign.load import load_text
from switchmark.cli.main import run as switchmark
from switchmark.cli.run_output import print_summary
from switchmark.errors import STARVED, StoppedRun
from switchmark.experiment import campaign, execute
from switchmark.experiment.block_schedule import CampaignBlocks
from switchmark.experiment.campaign import Observers, run_campaign
from switchmark.experiment.failed_starts import FailedStarts, could_not_start, normalise
from switchmark.experiment.prepare import Prepared
from switchmark.experiment.steps import Step
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.trial import Trial
from switchmark.record import Record, Timing
from switchmark.results.run_directory import Run, open_run
from switchmark.results.summary import summary
from switchmark.statistics.boundaries import FIRST_ANALYSIS
from tests.unit import block_fakes
from tests.unit.block_fakes import Machine
from tests.unit.campaign_fakes import INSTALLED, KNOWN
from tests.unit.records import synthetic_failure, synthetic_record, synthetic_trial
from tests.unit.trial_fakes import SESSION, FakeEnvironment, FakeSwitch, plan_for

DENIED = "network namespace sm4f00{}-{}: Operation not permitted"


def step(switch: str, size: int = 64, **changes: Any) -> Step:
    trial = synthetic_trial(switch=switch, packet_size_bytes=size, **changes)
    return Step(plan_for(trial, FakeSwitch(switch), FakeEnvironment()), None)


class Bench:
    """A run in which some contenders fail, for scripted reasons."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **reasons: str) -> None:
        self.run = Run.create(
            folder, campaign="unit", campaign_text="x", definition={}, settings={}, host={}
        )
        self.reasons = {name.replace("_", "-"): reason for name, reason in reasons.items()}
        self.lines: list[str] = []
        self.measured: list[str] = []
        self.failures = FailedStarts(self.lines.append)
        monkeypatch.setattr(campaign, "run_trial", self.run_trial)

    def run_trial(self, _session: object, plan: Any, **_: object) -> Record:
        """Return the record of a trial. Each failure has other names and numbers."""
        trial: Trial = plan.trial
        self.measured.append(trial.switch)
        count = len(self.measured)
        if trial.switch in self.reasons:
            reason = self.reasons[trial.switch].format(10 + count, trial.switch)
            return synthetic_failure(trial, reason)
        return synthetic_record(trial, marks=[], number=count)

    def go(self, *steps: Step) -> bool:
        """Run the steps. Return False if the run was stopped."""
        return run_campaign(
            SESSION, self.run, "unit", steps, dict, self,
            failures=self.failures,
        )  # fmt: skip

    def trial_begins(self, *_: object) -> None:
        """See `Observer`."""

    def live(self, _: object) -> None:
        """See `Observer`."""

    def trial_ended(self, record: Record) -> None:
        """See `Observer`."""
        assert self.run.read(record.trial_id) == record


SIZES = (64, 128, 256, 512, 1024)


def test_two_contenders_with_one_reason_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch, linux_bridge=DENIED, ovs_netdev=DENIED, basicfwd=DENIED)
    steps = [step(name, size) for size in SIZES for name in ("linux-bridge", "ovs-netdev")]
    assert not bench.go(*steps, step("basicfwd"))
    assert bench.measured == ["linux-bridge", "ovs-netdev"]
    assert bench.failures.stopped == (
        "stopped, since linux-bridge and ovs-netdev fail for the same reason: network namespace "
        "sm4f0012-ovs-netdev: Operation not permitted; see `switchmark doctor`"
    )
    assert len(bench.run.paths()) == 2, "both records are stored"


def test_remedy_of_reason_is_remedy_of_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "{1}: no hugepages; echo 1024 > nr_hugepages"
    bench = Bench(tmp_path, monkeypatch, basicfwd=reason, ovs_dpdk=reason)
    assert not bench.go(step("basicfwd"), step("ovs-dpdk"))
    assert bench.failures.stopped.endswith("ovs-dpdk: no hugepages; echo 1024 > nr_hugepages")


@pytest.mark.parametrize("other", ["ovs-vswitchd: no such file", f"{STARVED} {{0}}"])
def test_different_reasons_do_not_stop_a_run(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = other if STARVED in other else DENIED
    bench = Bench(tmp_path, monkeypatch, linux_bridge=first, ovs_netdev=other)
    assert bench.go(*[step(name) for name in ("linux-bridge", "ovs-netdev", "basicfwd")])
    assert bench.measured == ["linux-bridge", "ovs-netdev", "basicfwd"]


def test_only_the_first_trial_of_a_contender_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later failures of a contender that has worked do not count, nor do those of baselines."""
    bench = Bench(tmp_path, monkeypatch, ovs_netdev=DENIED)
    assert bench.go(step("linux-bridge", 64))
    bench.reasons["linux-bridge"] = bench.reasons["direct"] = DENIED
    wire = Step(step("direct").plan, None, is_baseline=True, is_requested=False)
    assert bench.go(wire, step("linux-bridge", 128), step("ovs-netdev"))
    assert not bench.failures.stopped


def test_contender_that_cannot_start_is_tried_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch, ovs_netdev="ovs-vswitchd: no such file {0}")
    steps = [step(name, size) for size in SIZES for name in ("ovs-netdev", "linux-bridge")]
    assert bench.go(*steps)
    assert bench.measured.count("ovs-netdev") == 2
    assert bench.measured.count("linux-bridge") == len(SIZES)
    (line,) = bench.lines
    assert line == (
        "left out: ovs-netdev, environment lxc: could not start 2 times: "
        "ovs-vswitchd: no such file 13"
    )
    stored = [item for item in bench.run.records() if item.status == "failed"]
    assert sorted(item.left_out for item in stored) == [False, True]


def test_baseline_is_left_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This does not depend on the number of idle cores."""
    bench = Bench(tmp_path, monkeypatch, direct=DENIED)
    wires = [
        Step(
            step("direct", size, spare_cores=spare).plan, None, is_baseline=True, is_requested=False
        )
        for spare in (0, 1)
        for size in SIZES
    ]
    assert bench.go(*wires, step("linux-bridge"))
    assert bench.measured == ["direct", "direct", "linux-bridge"] and len(bench.lines) == 1


def test_failure_after_the_start_leaves_no_contender_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a failure may concern only some test points."""
    bench = Bench(tmp_path, monkeypatch)
    timing = Timing(deploy_s=0.1, verify_s=0, measure_s=0, teardown_s=0.1, overhead_s=0.2)
    failed = synthetic_failure().model_copy(update={"timing": timing})
    assert could_not_start(synthetic_failure()) and not could_not_start(failed)
    assert not could_not_start(synthetic_record())
    for _ in range(5):
        assert not bench.failures.take(failed).left_out
    assert not bench.failures.is_left_out(failed.trial)


def test_contender_is_left_out_for_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch, linux_bridge="no container")
    assert bench.go(*[step("linux-bridge", size) for size in SIZES])
    bench.reasons.clear()
    assert bench.go(step("linux-bridge", 64, environment="netns"), step("linux-bridge", 1500))
    assert len(bench.measured) == 3, "the last trial is in the container again"


def test_resume_tries_left_out_contender_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch, ovs_netdev="no such file")
    steps = [step("ovs-netdev", size) for size in SIZES]
    bench.go(*steps)
    assert [bool(row.left_out) for row in summary(bench.run.directory)].count(True) == 1
    bench.failures, bench.reasons = FailedStarts(bench.lines.append), {}
    assert bench.go(*steps)
    assert len(list(bench.run.records())) == len(SIZES)
    assert not any(item.left_out for item in bench.run.records())
    assert len(bench.run.earlier_failures()) == 2, "earlier failures stay stored"


def test_summary_and_comparison_name_left_out_contender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(tmp_path / "a", monkeypatch)
    steps = [step(name, size) for size in SIZES for name in ("ovs-netdev", "linux-bridge")]
    assert bench.go(*steps)
    other = Bench(tmp_path / "b", monkeypatch, ovs_netdev="ovs-vswitchd: no such file")
    assert other.go(*steps)
    rows = summary(other.run.directory)
    print_summary(other.run, rows, rows)
    out = capsys.readouterr().out
    line = "Left out: ovs-netdev: ovs-vswitchd: no such file"
    assert out.count(line) == 1
    assert switchmark(["compare", str(bench.run.directory), str(other.run.directory)]) != 0
    assert "left out of B: ovs-netdev: ovs-vswitchd: no such file" in capsys.readouterr().err
    assert switchmark(["show", "--format", "json", str(other.run.directory)]) == 0
    assert '"left_out": "ovs-vswitchd: no such file"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("message", "other"),
    [
        ("namespace sm4f1a2b-a0: no", "namespace sm99ffee-b0: no"),
        ("/run/sm1/x.sock: refused", "/run/sm77/y.sock: refused"),
        ("pid 12 died of 0x7f00", "pid 4711 died of 0xdead"),
        ("linux-bridge: missing", "ovs-netdev: missing"),
    ],
)
def test_names_and_numbers_do_not_change_reason(message: str, other: str) -> None:
    bridge, ovs = synthetic_trial(), synthetic_trial(switch="ovs-netdev")
    assert normalise(message, bridge) == normalise(other, ovs)
    assert normalise(message, bridge) != normalise(f"{other} again", ovs)


def test_blocks_exclude_left_out_contender() -> None:
    """The other contenders are compared to the end."""
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, fails=("linux-bridge",), dwell_s=1e9)
    failures = FailedStarts(print)
    three = block_fakes.campaign(
        "switch: [basicfwd, ovs-dpdk, linux-bridge]\nmixed_connect_modes: true\nprove: 5%\n"
    )
    steps = block_fakes.steps_of(three)
    for block in CampaignBlocks(cast(Run, machine), three, steps, failures.is_left_out):
        for item in block:
            trial = item.plan.trial
            if not failures.is_left_out(trial):
                machine.measure(trial)
                failures.take(machine.records[trial.id])
    count = Counter(name for _, name in machine.order)
    assert count["linux-bridge"] == 2
    assert count["basicfwd"] == count["ovs-dpdk"] > 2


def test_blocks_end_if_fewer_than_two_contenders_are_left() -> None:
    machine = Machine({"basicfwd": 12e6}, fails=("ovs-dpdk",), dwell_s=1e9)
    two = block_fakes.campaign(
        "switch: [basicfwd, ovs-dpdk]\nmixed_connect_modes: true\nprove: 5%\n"
    )
    blocks = iter(
        CampaignBlocks(
            cast(Run, machine),
            two,
            block_fakes.steps_of(two),
            lambda trial: trial.switch == "ovs-dpdk",
        )
    )
    assert next(blocks) == [], "no baselines"
    assert list(blocks) == []


def prepare(
    definition: CampaignDefinition, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let `execute` run these steps without a session of this machine."""
    prepared = Prepared(campaign=definition, steps=steps, left_out=[], instead=None, refused=[])
    for name, value in (
        ("prepare", lambda *_, **__: prepared), ("open_session", lambda: nullcontext(SESSION)),
        ("_clean_up", lambda _: None), ("_tune", lambda *_: {}), ("tool_versions", dict),
        ("_calibrations", lambda *_: None),
    ):  # fmt: skip
        monkeypatch.setattr(execute, name, value)


def request_of(folder: Path) -> execute.Request:
    return execute.Request(
        campaign_text="", observer=Observers([]), say=print, results=folder / "results"
    )


@pytest.mark.parametrize("proves", [False, True])
def test_a_stopped_run_is_one_error_of_code_3_with_its_records(
    proves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bench(tmp_path / "unused", monkeypatch, linux_bridge=DENIED, ovs_netdev=DENIED)
    steps = [step(name, size) for size in SIZES for name in ("linux-bridge", "ovs-netdev")]
    text = "switch: [linux-bridge, ovs-netdev]\nconnect_mode: learning\n"
    definition = load_text(text + ("prove: 5%\n" if proves else ""), "unit.yaml", KNOWN)
    prepare(definition, steps, monkeypatch)
    with pytest.raises(StoppedRun) as stopped:
        execute.execute(definition, INSTALLED, request_of(tmp_path))
    assert stopped.value.exit_code == 3 and "\n" not in str(stopped.value)
    (folder,) = (tmp_path / "results").iterdir()
    assert str(stopped.value).endswith(f"see `switchmark doctor`; records in {folder}")
    assert len(open_run(folder).paths()) == 2


def test_fault_of_an_interim_analysis_names_the_stored_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign of 13 minutes ended with a traceback that did not say where its trials are."""

    def analyse(*_: object, **__: object) -> None:
        raise OverflowError("math range error")

    Bench(tmp_path / "unused", monkeypatch)
    steps = [step(name) for name in ("linux-bridge", "ovs-netdev")]
    text = "switch: [linux-bridge, ovs-netdev]\nconnect_mode: learning\nprove: 5%\n"
    definition = load_text(text, "unit.yaml", KNOWN)
    prepare(definition, steps, monkeypatch)
    monkeypatch.setattr("switchmark.results.proving.analyse", analyse)
    with pytest.raises(OverflowError) as failed:
        execute.execute(definition, INSTALLED, request_of(tmp_path))
    (folder,) = (tmp_path / "results").iterdir()
    (note,) = failed.value.__notes__
    assert f"stored in {folder}" in note and "--resume" in note
    assert len(open_run(folder).paths()) == 2 * FIRST_ANALYSIS
