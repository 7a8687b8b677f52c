"""Two builds of one switch, one of them slower by construction, are distinguished by name within
two minutes. Frames of the `reference` forwarder cost a set time each: 5 % more is a throughput of 1
/ 1.05, whatever the state of the machine."""

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
    """Make a build of the engine that looks different to the bench."""
    path.write_text(f'#!/bin/sh\nexec {find_engine()} "$@" {" ".join(more)}\n')
    path.chmod(0o755)
    return path


@pytest.mark.slow
@truth("a lead between two builds", "5 % more time a frame by the reference", "ours", "2 minutes")
def test_five_per_cent_between_builds_is_proven_in_two_minutes(
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
    assert all(one.low > 1 for one in lead.ratios), "certainly above 1"
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
    arguments = ("trial", switch, "--duration", "1s", "--no-baseline", *set_)
    code, out, err = bench.run_to_the_end(*arguments)
    assert code == 0, err
    assert "mine" in out and traces.exists()
    (record,) = bench.records()
    assert record.switch_details["program"] == str(program)
    assert record.switch_details["program_sha256"]


@pytest.mark.parametrize("how", ["budget: 4s", "repetitions: 2\nrate: 1000"])
def test_wires_are_contenders(bench: Bench, tmp_path: Path, how: str) -> None:
    """A campaign of trials without a switch compares them; with a budget it divided by zero.

    At 1000 frames a second a sample contains two or three bursts, which are not two bands."""
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
    assert {record.trial.contender for record in records} == {"mmsg", "mmap"}
    assert [record.is_baseline for record in records] == [False] * len(records)
    for record in records:
        if record.throughput is None or record.trial.rate_pps is None:
            continue
        assert record.throughput.burst_pps is not None and record.throughput.burst_pps > 32
        assert record.verdict is not None
        met = record.throughput.forwarded_pps + record.throughput.burst_pps >= 1000
        if met and not record.throughput.loss_ratio:
            assert record.limit is not None and record.limit.factor == "rate", record.limit
