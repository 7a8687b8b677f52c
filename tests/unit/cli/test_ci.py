"""Output for CI: verdicts as JUnit XML, figures as BMF, and the example workflows of docs/ci.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from junitparser import Error, Failure, JUnitXml, Skipped

from switchmark.campaign.load import load_text
from switchmark.cli import main
from switchmark.experiment import steps as steps_module
from switchmark.host.facts import Cpu
from switchmark.language.source import CampaignError
from switchmark.report.bmf import bmf
from switchmark.report.junit import Case, CaseOutcome, cases_of_run, junit_xml
from switchmark.results.by_machine import rows_by_machine
from switchmark.results.expectations import ExpectationOutcome, judge_run, judge_testbeds
from switchmark.results.query import read_table
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from tests.unit.campaign_fakes import INSTALLED, KNOWN
from tests.unit.cli.test_compare import loads, records
from tests.unit.records import synthetic_failure, synthetic_record, synthetic_trial, write_run

DOCS = Path(__file__).parents[3] / "docs"
# https://bencher.dev/bmf.json, as published
BMF_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema",
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "number"},
                        "lower_value": {"type": "number"},
                        "upper_value": {"type": "number"},
                    },
                    "required": ["value"],
                }
            },
        }
    },
}


def expected(**bounds: Any) -> Any:
    lines = [f'  {name}: "{text}"' for name, text in bounds.items()]
    text = "\n".join(["switch: linux-bridge", "dimension: [throughput]", "expect:", *lines])
    return load_text(text, "test.yaml", KNOWN).expect


def wires(pps: Any, repetitions: Any) -> Any:
    return [
        synthetic_record(
            trial,
            port_kind="veth",
            io="raw-mmsg",
            throughput=loads(trial, pps * (1 + 0.001 * (repetition % 3))),
        )
        for repetition in range(repetitions)
        for trial in [synthetic_trial(switch="direct", repetition=repetition)]
    ]


def judged(root: Any, found: Any, definition: Any = None, **bounds: Any) -> Any:
    rows = summary(write_run(root, found))
    return judge_run(definition or {}, rows, expected(**bounds))


def outcomes(root: Any, found: Any, **bounds: Any) -> Any:
    return [one.outcome for one in judged(root, found, **bounds)]


def test_values_beyond_the_interval_are_proven(tmp_path: Path) -> None:
    found = records(1.0, 1, sizes=(64,), repetitions=6)  # 1 Mpps, 0.3 % apart
    assert outcomes(tmp_path, found, throughput=">= 900k") == [ExpectationOutcome.MET]
    assert outcomes(tmp_path, found, throughput=">= 1.1M") == [ExpectationOutcome.VIOLATED]
    assert outcomes(tmp_path, found, throughput="<= 900k") == [ExpectationOutcome.VIOLATED]
    (verdict,) = judged(tmp_path, found, throughput=">= 1M")
    assert verdict.outcome is ExpectationOutcome.UNDECIDED
    assert "more repetitions" in verdict.reason or "at the bound" in verdict.reason


def test_one_repetition_decides_nothing_and_says_what_would(tmp_path: Path) -> None:
    (verdict,) = judged(tmp_path, records(1.0, 1, sizes=(64,), repetitions=1), throughput=">= 1k")
    assert verdict.outcome is ExpectationOutcome.UNDECIDED
    assert verdict.needs_s > 0
    assert "1 more" in verdict.reason


def test_many_verdicts_share_one_level(tmp_path: Path) -> None:
    """A bound just outside of one 95 % interval is not proven where fifty are judged."""
    found = records(1.0, 1, sizes=(64,), repetitions=6)
    row = summary(write_run(tmp_path, found))[0]
    figure = row.throughput.forwarded_pps
    bound = figure.low - 0.05 * (figure.mean - figure.low)
    (expectation,) = expected(throughput=">= 1k")
    expectation = expectation.model_copy(update={"bound": bound})
    (alone,) = judge_run({}, [row], [expectation])
    among = judge_run({}, [row], [expectation] * 50)
    assert alone.outcome is ExpectationOutcome.MET
    assert {one.outcome for one in among} == {ExpectationOutcome.UNDECIDED}


def test_each_testbed_of_a_pool_is_judged_by_itself(tmp_path: Path) -> None:
    """Together, their repetitions would be two bands, and decide nothing."""
    found = []
    for number, (testbed, factor) in enumerate({"lab1": 1.0, "lab2": 0.8}.items()):
        for record in records(factor, 1, sizes=(64,), repetitions=6):
            trial = record.trial.repeated(2 * record.trial.repetition + number)
            output = {"trial": trial, "trial_id": trial.id, "provenance": {"testbed": testbed}}
            found.append(record.model_copy(update=output))
    run = open_run(write_run(tmp_path, found))
    table = read_table(run.directory)
    by_testbed = rows_by_machine(run, table)
    judgements = judge_testbeds({}, by_testbed, expected(throughput=">= 900k"))
    output = {one.testbed: one.outcome for one in judgements}
    assert output == {"lab1": ExpectationOutcome.MET, "lab2": ExpectationOutcome.VIOLATED}
    cases = cases_of_run("unit", [], judgements)
    assert [case.name.rpartition(" on ")[2] for case in cases] == ["lab1", "lab2"]
    (alone,) = judge_run({}, by_testbed["lab1"], expected(throughput=">= 900k"), times=10**9)
    assert alone.outcome is ExpectationOutcome.UNDECIDED  # they share the level


def test_looks_cost_level(tmp_path: Path) -> None:
    found = records(1.0, 1, sizes=(64,), repetitions=6)
    row = summary(write_run(tmp_path, found))[0]
    figure = row.throughput.forwarded_pps
    (expectation,) = expected(throughput=">= 1k")
    bound = figure.low - 0.05 * (figure.mean - figure.low)
    expectation = expectation.model_copy(update={"bound": bound})
    searched = {"until_ci": 0.01, "repetitions": 2, "max_repetitions": 20}
    assert judge_run(searched, [row], [expectation])[0].outcome is ExpectationOutcome.UNDECIDED


def test_a_switch_is_held_against_its_wire(tmp_path: Path) -> None:
    found = records(0.5, 1, sizes=(64,), repetitions=6)
    both = [*found, *wires(1e6, 6)]
    assert outcomes(tmp_path, both, slower_than_baseline="<= 60%") == [ExpectationOutcome.MET]
    assert outcomes(tmp_path, both, slower_than_baseline="<= 40%") == [ExpectationOutcome.VIOLATED]
    once = [*found, *wires(1e6, 1)]
    (verdict,) = judged(tmp_path, once, slower_than_baseline="<= 60%")
    assert verdict.outcome is ExpectationOutcome.UNDECIDED
    assert "one repetition proves nothing" in verdict.reason
    (verdict,) = judged(tmp_path, found, slower_than_baseline="<= 60%")
    assert "baseline was not measured" in verdict.reason


def test_round_trips_are_judged_without_invalid_trials(tmp_path: Path) -> None:
    trials = [synthetic_trial(dimension="latency", repetition=n) for n in range(5)]
    text = 'switch: linux-bridge\ndimension: latency\nexpect: {rtt_p50: "<= 1s", rtt_p99: "<= 1ns"}'
    expectation = load_text(text, "test.yaml", KNOWN).expect
    rows = summary(write_run(tmp_path, [synthetic_record(one) for one in trials]))
    assert [one.outcome for one in judge_run({}, rows, expectation)] == [
        ExpectationOutcome.MET,
        ExpectationOutcome.VIOLATED,
    ]
    flooded = [synthetic_record(one, marks=["flooding"]) for one in trials]
    rows = summary(write_run(tmp_path, flooded))
    assert {one.outcome for one in judge_run({}, rows, expectation)} == {
        ExpectationOutcome.UNUSABLE
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("expect: 5M", "must have keys; write e.g. expect:"),
        ("expect: {throughput: 5M}", "'5M' is not a bound; write e.g."),
        ("expect: {thruput: '>= 5M'}", "did you mean throughput?"),
        ("expect: {loss: '<= 5 parrots'}", "has the unknown suffix"),
        ("expect: {rtt_p99: '<= 5us'}", "no trial of this campaign has that figure; add latency"),
    ],
)
def test_a_mistake_is_one_line_with_its_remedy(line: Any, message: Any) -> None:
    with pytest.raises(CampaignError) as caught:
        load_text(f"switch: linux-bridge\n{line}\n", "test.yaml", KNOWN)
    assert message in str(caught.value)
    assert str(caught.value).startswith("test.yaml:2: expect")


def test_baseline_is_measured_as_often_as_its_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps_module, "read_cpus", lambda: [Cpu(0, 0, 0), Cpu(1, 0, 0)])
    text = "switch: linux-bridge\nenvironment: lxc\nrepetitions: 3\n"
    expectation = 'expect: {slower_than_baseline: "<= 5%"}\n'
    for more, wires_wanted in (("", [0]), (expectation, [0, 1, 2])):
        steps = steps_module.plan_steps(load_text(text + more, "t.yaml", KNOWN), INSTALLED)
        observed = [step.plan.trial.repetition for step in steps if step.is_baseline]
        assert observed == wires_wanted
        assert sum(not step.is_baseline for step in steps) == 3


def read_cases(document: Any) -> Any:
    return {case.name: case for suite in JUnitXml.fromroot(document._elem) for case in suite}


def test_a_known_reader_reads_the_verdicts_of_a_run(tmp_path: Path) -> None:
    found = [*records(1.0, 1, repetitions=6), synthetic_failure(synthetic_trial(burst=8), "it\x1b")]
    rows = summary(write_run(tmp_path, found))
    expectation = expected(throughput=">= 1.1M", loss="<= 1%")
    xml = junit_xml(
        "nightly", cases_of_run("nightly", rows, judge_run({}, rows, expectation)), "2026-01-01"
    )
    document = JUnitXml.fromstring(xml)
    cases = read_cases(document)
    assert len(cases) == document.tests == 3 + 3 * 2
    by_kind: dict[str, Any] = {kind: [] for kind in (Failure, Error, Skipped, None)}
    for name, case in cases.items():
        by_kind[type(case.result[0]) if case.result else None].append(name)
    assert len(by_kind[Failure]) == document.failures == 2
    assert len(by_kind[Error]) == document.errors == 3  # the failed trial, and what it should give
    assert document.skipped == 0
    sentence = cases[by_kind[Failure][0]].result[0].message
    assert re.search(
        r"1\.00 Mpps \(.* to .*\) in 6 repetitions, expected >= 1.1M: violated", sentence
    )


def test_control_characters_and_counts_survive() -> None:
    xml = junit_xml(
        "s\x00", [Case("n\x08<&>", "g", CaseOutcome.SKIPPED, "m\x1f")], "2026-01-01T00:00:00"
    )
    (case,) = read_cases(JUnitXml.fromstring(xml)).values()
    assert case.name == "n\\x08<&>"
    assert isinstance(case.result[0], Skipped)


def test_figures_are_bencher_s(tmp_path: Path) -> None:
    rows = summary(write_run(tmp_path, records(1.0, 1, repetitions=6)))
    found = bmf(rows)
    jsonschema.validate(found, BMF_SCHEMA)
    figure = found[rows[0].notation]["forwarded-pps"]
    assert figure["lower_value"] < figure["value"] < figure["upper_value"]
    assert figure["value"] == rows[0].throughput.forwarded_pps.mean
    flooded = summary(write_run(tmp_path, records(1.0, 1, marks=["flooding"])))
    assert bmf(flooded) == {}


def compare(*arguments: Any) -> Any:
    return main.run(["compare", *map(str, arguments)])


def test_compare_writes_both(tmp_path: Path) -> None:
    a, b = write_run(tmp_path, records(1.0, 1)), write_run(tmp_path, records(0.9, 2))
    xml, figures = tmp_path / "out.xml", tmp_path / "out.json"
    assert compare(a, b, "--junit", xml, "--bmf", figures) == 4
    document = JUnitXml.fromfile(str(xml))
    assert (document.tests, document.failures) == (2, 2)
    message = next(iter(read_cases(document).values())).result[0].message
    assert message.startswith("worse: B / A 0.90")
    found = json.loads(figures.read_text())
    jsonschema.validate(found, BMF_SCHEMA)
    assert len(found) == 2


def test_undecided_expectation_is_skipped_with_its_need(tmp_path: Path) -> None:
    a = write_run(tmp_path, records(1.0, 1, repetitions=1))
    b = write_run(tmp_path, records(0.9, 2, repetitions=1))
    assert compare(a, b, "--junit", tmp_path / "out.xml") == 5
    cases = read_cases(JUnitXml.fromfile(str(tmp_path / "out.xml")))
    observed = [case.result[0] for case in cases.values()]
    assert all(isinstance(one, Skipped) for one in observed)
    assert all("needs about 2 more repetitions a side, 10 s" in one.message for one in observed)


def test_series_and_errors_are_also_written(tmp_path: Path) -> None:
    good = [write_run(tmp_path, records(1.0, seed)) for seed in range(4)]
    broken = [synthetic_failure(one.trial, "the switch died") for one in records(1.0, 1)[:5]]
    last = write_run(tmp_path, broken + records(1.0, 9)[5:])
    assert compare(*good, last, "--junit", tmp_path / "out.xml") == 4
    document = JUnitXml.fromfile(str(tmp_path / "out.xml"))
    assert (document.tests, document.failures) == (2, 1)


def test_impossible_place_is_reported_before_any_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare("no", "such", "--junit", tmp_path / "missing" / "out.xml") == 2
    assert "--junit" in capsys.readouterr().err
    assert main.run(["run", "quick", "--bmf", str(tmp_path)]) == 2
    assert "--bmf" in capsys.readouterr().err


def workflows() -> Any:
    text = (DOCS / "ci.md").read_text()
    return re.findall(r"```yaml\n# (\.\S+)\n(.*?)```", text, re.DOTALL)


def test_the_example_workflows_are_what_github_and_gitlab_take(tmp_path: Path) -> None:
    schemas = {"performance.yml": "vendor.github-workflows", ".gitlab-ci.yml": "vendor.gitlab-ci"}
    found = {Path(name).name: text for name, text in workflows()}
    assert set(found) == set(schemas)
    for name, text in found.items():
        (tmp_path / name).write_text(text)
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schemas[name]]
        subprocess.run([*command, tmp_path / name], check=True, capture_output=True)
        (tmp_path / name).write_text(text.replace("timeout", "timeuot"))
        refused = subprocess.run([*command, tmp_path / name], check=False, capture_output=True)
        assert refused.returncode == 1, "the schema takes anything"


def test_the_example_campaign_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(name: nightly.*?)```", (DOCS / "ci.md").read_text(), re.DOTALL)
    assert len(load_text(text, "nightly.yaml", KNOWN).expect) == 3


def test_workflows_use_options_that_exist() -> None:
    for _, text in workflows():
        for command, options in re.findall(r"switchmark (run|compare) ([^\n;]*)", text):
            shown = main.load_command(command).params
            known = {option for one in shown for option in getattr(one, "opts", [])}
            assert set(re.findall(r"--\w+", options)) <= known
