"""Two builds of one switch, of which one is slower by construction: told apart by name, within two
minutes. The truth is the `reference` forwarder, whose frames cost a set time each: 5 % more is
a throughput of 1 / 1.05, whatever the state of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from switchmark.engine.binary import find_engine
from switchmark.host.programs import which
from switchmark.model.value import parse_utc
from switchmark.results.answer import LeadVerdict, answer_run
from switchmark.results.find import find_latest
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from switchmark.switch.registry import usual_overhead_s
from switchmark.switch.support.ovs_switch import OvsSwitch
from tests.integration.machine import needs_root
from tests.integration.main_job import SHORT, Bench, campaign_file, need, new_bench, settings
from tests.truths import truth

pytestmark = [pytest.mark.alone, pytest.mark.integration, needs_root]

BUDGET = timedelta(minutes=2)
COSTS_NS = {"old": 10_500, "new": 10_000}
CAMPAIGN = """
name: two-builds
switch: reference
duration: 500ms
prove: 5%
budget: 2m
contenders:
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    need(["reference"], ["netns"])
    yield from new_bench(tmp_path)


def build(path: Path, *more: str) -> Path:
    """A build of the engine that behaves otherwise, as far as the bench can see."""
    path.write_text(f'#!/bin/sh\nexec {find_engine()} "$@" {" ".join(more)}\n')
    path.chmod(0o755)
    return path


@pytest.mark.slow
@truth("a lead between two builds", "5 % more time a frame by the reference", "ours", "2 minutes")
def test_five_per_cent_between_two_builds_are_proven_within_two_minutes(
    bench: Bench, tmp_path: Path
) -> None:
    builds = {name: build(tmp_path / name, f"--cost-ns {cost}") for name, cost in COSTS_NS.items()}
    entries = "".join(f"  {name}: {{program: {path}}}\n" for name, path in builds.items())
    code, out, err = bench.run("run", campaign_file(tmp_path, CAMPAIGN + entries))
    assert code == 0, err
    latest = find_latest(bench.results)
    assert latest is not None
    run = open_run(latest)
    names = {row.trial.id: row.contender for row in summary(run.directory)}
    (found,) = [one for one in answer_run(run, names, usual_overhead_s) if one.decides]
    assert [one.contender for one in found.ranking] == ["new", "old"]
    (lead,) = found.leads
    assert (lead.ahead, lead.verdict) == ("new", LeadVerdict.AHEAD), out
    assert all(one.low > 1 for one in lead.ratios), "above 1 for certain"
    assert any(one.low <= 1.05 <= one.high for one in lead.ratios), out
    records = [record for record in run.records() if record.trial.contender]
    begun = min(parse_utc(one.started_at) for one in records)
    assert max(parse_utc(one.ended_at) for one in records) - begun <= BUDGET
    assert "new is ahead" in out
    assert {(one.trial.contender, one.switch_details["program"]) for one in records} == {
        (name, str(path)) for name, path in builds.items()
    }


@pytest.mark.parametrize("switch", ["reference", "ovs-netdev"])
def test_a_trial_runs_the_program_that_was_named(bench: Bench, tmp_path: Path, switch: str) -> None:
    need([switch])
    installed = filter(None, map(which, OvsSwitch.programs))
    found = find_engine() if switch == "reference" else next(installed)
    program, traces = tmp_path / "program", tmp_path / "was-run"
    program.write_text(f'#!/bin/sh\necho "$@" >> {traces}\nexec {found} "$@"\n')
    program.chmod(0o755)
    set_ = settings(*SHORT, f"program={program}", "contender=mine")
    words = ("trial", switch, "--duration", "1s", "--no-baseline", *set_)
    code, out, err = bench.run_to_the_end(*words)
    assert code == 0, err
    assert "mine" in out and traces.exists()
    (record,) = bench.records()
    assert record.switch_details["program"] == str(program)
    assert record.switch_details["program_sha256"]


@pytest.mark.parametrize("how", ["budget: 4s", "repetitions: 2\nrate: 1000"])
def test_wires_are_contenders(bench: Bench, tmp_path: Path, how: str) -> None:
    """A campaign of nothing but bare wires compares them; with a budget it divided by zero. At 1000
    frames a second a sample holds two or three bursts, which alone are not two bands."""
    need(["direct"], ["netns"])
    text = f"""
name: wires
switch: direct
duration: 500ms
environment: netns
{how}
contenders: {{mmsg: {{io: raw-mmsg}}, mmap: {{io: packet-mmap}}}}
"""
    _, out, err = bench.run_to_the_end("run", campaign_file(tmp_path, text))
    assert "Traceback" not in out + err
    records = list(bench.records())
    assert {one.trial.contender for one in records} == {"mmsg", "mmap"}
    assert [one.is_baseline for one in records] == [False] * len(records)
    for one in records:
        if one.throughput is None or one.trial.rate_pps is None:
            continue
        assert one.throughput.burst_pps is not None and one.throughput.burst_pps > 32
        assert one.verdict is not None
        met = one.throughput.forwarded_pps + one.throughput.burst_pps >= 1000
        if met and not one.throughput.loss_ratio:
            assert one.limit is not None and one.limit.factor == "rate", one.limit
