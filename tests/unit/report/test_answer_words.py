"""The text of a report: comparison results and trends, decided and undecided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.cli.output import text_width
from switchmark.cli.run_output import summary_lines
from switchmark.model.choices import Dimension
from switchmark.model.functions import read_functions
from switchmark.record.page_sizes import Point
from switchmark.report import answer_words, words
from switchmark.report.summary_words import answers_of, summarise_in_words
from switchmark.report.trend import trends
from switchmark.results.answer import LeadRatio, LeadVerdict
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from switchmark.simulation.in_kernel import Blocking, BlockingSwitch
from switchmark.statistics.means import estimate
from tests.unit.method_fakes import run_simulated
from tests.unit.records import (
    synthetic_record,
    synthetic_trial,
    write_run,
)


def test_one_repetition_is_not_tested(tmp_path: Path) -> None:
    records = [synthetic_record(synthetic_trial(switch=s)) for s in ("basicfwd", "ovs-dpdk")]
    directory = write_run(tmp_path, records)
    rows = summary(directory)
    results = answers_of(open_run(directory), rows, rows)
    assert [ranked.contender for ranked in results[0].ranking]
    assert answer_words.deciding(results) == []
    assert answer_words.untested(results) == [
        "nothing can be tested with one repetition of a contender"
    ]


def test_two_repetitions_are_too_few_to_test(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(switch=s, repetition=n), number=n)
        for n in range(2)
        for s in ("basicfwd", "ovs-dpdk")
    ]
    directory = write_run(tmp_path, records, repetitions=2)
    rows = summary(directory)
    (reason,) = answer_words.untested(answers_of(open_run(directory), rows, rows))
    assert reason.startswith("nothing can be tested: 2 blocks have a valid figure")


def test_order_that_differs_from_the_medians_is_explained(tmp_path: Path) -> None:
    records = [synthetic_record(synthetic_trial(switch=s)) for s in ("basicfwd", "ovs-dpdk")]
    directory = write_run(tmp_path, records)
    rows = summary(directory)
    (answer,) = answers_of(open_run(directory), rows, rows)
    first, second = answer.ranking
    as_medians = replace(
        answer, ranking=(replace(first, typical=3e6), replace(second, typical=2e6))
    )
    other = replace(answer, ranking=(replace(first, typical=2e6), replace(second, typical=3e6)))
    assert answer.metric.higher_is_better
    assert answer_words.explanation([as_medians]) == ""
    assert "can differ from the quotients and the order" in answer_words.explanation([other])


@pytest.mark.parametrize(
    ("means", "ending"),
    [
        ((4e6, 2e6, 1e6), "4.00 Mpps at 1, 1.00 Mpps at 3, 25 % of that (significant, p "),
        ((4e6, 2e6, 1e6), "; less at each step."),
        ((2e6, 4e6, 1e6), "; less, but not from 1 to 2 (2.00 Mpps to 4.00 Mpps)."),
    ],
)
def test_cost_of_a_longer_chain_is_printed(
    tmp_path: Path, means: tuple[float, ...], ending: str
) -> None:
    records = [synthetic_record(synthetic_trial(scenario=f"loopback-{n}")) for n in (1, 2, 3)]
    records.append(synthetic_record(synthetic_trial(scenario="p2p", switch="direct")))
    rows = []
    for row in summary(write_run(tmp_path / "results", records)):
        assert row.throughput is not None
        if not row.is_baseline:
            mean = means[int(row.trial.scenario[-1]) - 1]
            rate = estimate([mean - 1e4, mean, mean + 1e4])
            rows.append(replace(row, throughput=replace(row.throughput, forwarded_pps=rate)))
    title, lines = trends(rows)
    assert title == "VNFs in the chain"
    (line,) = lines
    assert line.startswith("linux-bridge, 64 B: ") and ending in line


def test_baseline_is_not_named_by_missing_keys(tmp_path: Path) -> None:
    """A wire has no method: neither it nor the contender is named by goals and budgets."""
    searched = synthetic_trial(goals="quick", budget_s=5.0, duration_s=0.3)
    wire = synthetic_trial(switch="direct", duration_s=3.0)
    found = write_run(tmp_path, [synthetic_record(trial) for trial in (searched, wire)])
    rows = summary(found)
    named = [name for name, _ in summarise_in_words(open_run(found), rows, rows, []).rows]
    assert named == ["linux-bridge, 64 B", "baseline, 64 B"]


def test_no_figure_of_a_run_without_comparisons_is_cut(tmp_path: Path) -> None:
    """Nor is a row named by the loads and bursts that its dimension has."""
    records = [
        synthetic_record(
            synthetic_trial(
                switch=switch, dimension=dimension, environment=environment, burst=burst
            )
        )
        for switch in ("ovs-dpdk", "linux-bridge", "direct")
        for dimension, burst in ((Dimension.THROUGHPUT, 32), (Dimension.LATENCY, 1))
        for environment in ("netns", "lxc")
    ]
    found = write_run(tmp_path, records)
    rows = summary(found)
    lines = [line.text for line in summary_lines(open_run(found), rows, rows, [])][:-2]
    shown = " ".join(" ".join(lines).split())
    assert all(len(line) <= text_width() for line in lines), lines
    for name, text in summarise_in_words(open_run(found), rows, rows, []).rows:
        assert "burst" not in name
        assert f"{name} {text}" in shown


def test_missing_value_has_its_word() -> None:
    assert words.field("budget_s", None) == "method budget auto"
    assert words.field("budget_s", 300.0) == "method budget 300s"
    assert words.field("vlan", "") == "vlan none"
    assert words.field("connect_mode", None) == "connect mode auto"


def test_ratio_of_thousands_has_no_exponent() -> None:
    ratio = LeadRatio(351.2, 99.1, 1240.3, 5, LeadVerdict.AHEAD)
    assert answer_words.ratio(ratio) == "351x (99 to 1240)"
    assert answer_words.ratio(replace(ratio, value=999.7), short=True) == "1000x"


def test_bound_above_1_is_not_shown_as_1() -> None:
    ratio = LeadRatio(1.187, 1.0021, 1.4, 5, LeadVerdict.AHEAD)
    assert answer_words.ratio(ratio) == "1.187x (1.002 to 1.400)"
    assert answer_words.ratio(replace(ratio, low=1.04)) == "1.19x (1.04 to 1.40)"
    assert answer_words.ratio(replace(ratio, value=22.43, low=6.14, high=81.9)) == (
        "22.4x (6.1 to 81.9)"
    )


def test_comparisons_of_functions_follow_the_scale(tmp_path: Path) -> None:
    """The trials of a block run in random order."""
    records = [
        synthetic_record(
            synthetic_trial(
                switch=switch,
                function=read_functions("route+acl"),
                rules=rules,
                repetition=block,
            ),
            number=5 * block + index,
        )
        for block in range(3)
        for index, (rules, switch) in enumerate(
            (rules, switch) for rules in (10_000, 0, 100) for switch in ("ovs-netdev", "ovs-dpdk")
        )
    ]
    directory = write_run(tmp_path, records, repetitions=3)
    rows = summary(directory)
    answers = answers_of(open_run(directory), rows, rows)
    assert [one.ranking[0].trial.rules for one in answers if one.metric == answers[0].metric] == [
        0, 100, 10_000,
    ]  # fmt: skip


def test_names_of_points_have_the_fewest_fields() -> None:
    def point(switch: str, contender: str, rules: int, rate: int | None) -> Point:
        return (
            ("switch", switch), ("contender", contender), ("packet_size_bytes", 64),
            ("rate_pps", rate), ("method", "plain"), ("rules", rules), ("page_size_kib", None),
        )  # fmt: skip

    points = [
        point("linux-router", "linear", 0, None),
        point("linux-router", "linear", 100, None),
        point("linux-router", "set", 100, None),
        point("direct", "", 100, None),
        point("direct", "", 100, 1000),
    ]
    assert list(words.names_of(points).values()) == [
        "linear, 64 B, 0 rules",
        "linear, 64 B, 100 rules",
        "set, 64 B",
        "direct, 64 B, rate max",
        "direct, 64 B, rate 1k pps",
    ]
    assert words.names_of([]) == {}


def test_point_leaves_out_keys_that_its_functions_do_not_read() -> None:
    varying = ["function", "cir_bps"]
    fields = {"packet_size_bytes": 64, "cir_bps": 10_000_000}
    assert words.point({**fields, "function": "forward"}, varying) == "64 B, function forward"
    assert (
        words.point({**fields, "function": "forward+policer"}, varying)
        == "64 B, function forward+policer, CIR 10Mbit/s"
    )
    assert not words.is_read("cir_bps", {"function": "forward"})


def test_search_without_cores_states_the_reason(tmp_path: Path) -> None:
    """It stated that frames were lost, but none was: the sender did not run."""
    starved = BlockingSwitch(Blocking(capacity_pps=5e5, descheduled_share=1e3))
    found = run_simulated("ndr-pdr", starved, in_kernel=True, rate_pps=10**6, goals="quick")
    trial = synthetic_trial(switch="linux-bridge", method="ndr-pdr", goals="quick")
    directory = write_run(tmp_path, [synthetic_record(trial, throughput=None, method=found)])
    rows = summary(directory)
    lines = [line.text for line in summary_lines(open_run(directory), rows, rows, [])]
    text = " ".join(" ".join(lines).split())
    assert "no figure: other programs used the cores of the applications or the switch" in text
    assert "lost frames" not in text
