"""The second stage of a reproduction: what gets blocks, what would take how many, and how a run
that has them is judged. Figures are simulated, so the truth is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from switchmark.campaign.installed import installed
from switchmark.reproduction.findings import JudgedFinding, judge
from switchmark.reproduction.page import as_html, as_markdown, make_page
from switchmark.reproduction.paper import Item, Paper, PaperFinding, read_paper
from switchmark.reproduction.run import MeasuredCampaign, folder_of, read_measured
from switchmark.reproduction.second_stage import (
    NOT_IN_A_DAY,
    OpenPaper,
    block_s,
    outlook,
    plan,
)
from switchmark.reproduction.stages import Blocks, settings_of
from switchmark.results.findings import FindingVerdict
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run, open_run
from switchmark.statistics.means import estimate
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.reproduce_fakes import SPREAD, loads
from tests.unit.reproduction.test_findings import A, B, finding, rows_of

THERE = installed()
SIX = Blocks(6)


def shaped(mean: float, blocks: int = 6) -> list[float]:
    """Figures with this geometric mean and the spread, always the same."""
    values = np.linspace(-1, 1, blocks)
    return (mean * np.exp(SPREAD * values / values.std(ddof=1))).tolist()


def with_values(row: SummaryRow, values: Sequence[float], *, stages: int = 1) -> SummaryRow:
    """The row with these figures, those of equal stages."""
    assert row.throughput is not None
    load = replace(row.throughput, forwarded_pps=estimate(values))
    row = replace(row, throughput=load, finished=len(values))
    if stages == 1:
        return row
    size = len(values) // stages
    parts = (values[at : at + size] for at in range(0, len(values), size))
    return replace(row, stages=tuple(with_values(row, one) for one in parts))


def test_simulated_findings_at_their_bound_are_rarely_decided(tmp_path: Path) -> None:
    """Three ratios at once, judged after the first stage and, where it is open, after a second."""
    sizes = (32, 64, 128)
    rows = rows_of(tmp_path, {(one, size): (1.0, 1.0) for one in (A, B) for size in sizes})
    asked = finding(left={"switch": A}, right={"switch": B}, at_least=0.9, at_most=2)
    draws, decided = 120, 0
    for seed in range(draws):
        source = np.random.default_rng(seed)
        drawn = {
            row.notation: source.normal(math.log(0.9) if row.trial.switch == A else 0, SPREAD, 12)
            for row in rows
        }
        for stages in (1, 2):
            told = [
                with_values(row, np.exp(drawn[row.notation][: 6 * stages]).tolist(), stages=stages)
                for row in rows
            ]
            verdict = judge(asked, {"i": told}).verdict
            if verdict is not FindingVerdict.UNDECIDED:
                decided += 1
                break
    assert binomtest(decided, draws, 0.05, alternative="greater").pvalue > 0.01, decided


def paper(*findings: PaperFinding) -> Paper:
    named = {"authors": "X", "year": 2020, "title": "t", "where": "w", "machine": "m"}
    items = [Item(name=one, title="t", section="1", campaign=f"p-{one}") for one in "ij"]
    return Paper.model_validate(
        named | {"name": "p", "method": "m", "target": "t", "items": items, "findings": findings}
    )


def lead(item: str, name: str, switch: str = B) -> PaperFinding:
    asked = finding(item=item, order=[[switch], [A]])
    return asked.model_copy(update={"name": name})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return open_run(write_run(tmp_path / "run", [synthetic_record()]))


def open_paper(
    tmp_path: Path, run: Run, leads: dict[str, float], blocks: Blocks = SIX, stages: int = 1
) -> OpenPaper:
    """A paper with a finding an item, that B leads A by so much."""
    measured, findings = {}, []
    for item, ratio in leads.items():
        rows = rows_of(tmp_path / item, {(A, 32): (1.0, 1.0), (B, 32): (1.0, 1.0)})
        told = [
            with_values(
                row, shaped(ratio if row.trial.switch == B else 1.0) * stages, stages=stages
            )
            for row in rows
        ]
        measured[f"p-{item}"] = MeasuredCampaign(run, tuple(told), blocks)
        findings.append(lead(item, f"lead-{item}"))
    rows_by = {name.removeprefix("p-"): held.rows for name, held in measured.items()}
    judged = [judge(one, rows_by) for one in findings]
    assert all(one.verdict is FindingVerdict.UNDECIDED for one in judged), [
        one.why for one in judged
    ]
    return OpenPaper(paper(*findings), judged, measured, set(measured))


def needs(one: OpenPaper, item: str) -> int:
    """The further blocks of an item with unlimited time."""
    alone = replace(one, chosen={f"p-{item}"})
    return plan([alone], 1e9).blocks["p", f"p-{item}"]


def test_time_goes_first_to_what_needs_least_and_never_beyond_the_budget(
    tmp_path: Path, run: Run
) -> None:
    one = open_paper(tmp_path, run, {"i": 1.07, "j": 1.12})
    near, far = needs(one, "i"), needs(one, "j")
    assert near > far, "a small lead takes more blocks"
    each_s = block_s(one.measured["p-i"])
    some = plan([one], far * each_s + 1)
    assert some.blocks == {("p", "p-j"): far} and some.decides == ["p lead-j"]
    assert some.cannot == ["p lead-i"] and some.expected_s <= far * each_s + 1
    both = plan([one], (near + far) * each_s + 1)
    assert both.blocks == {("p", "p-j"): far, ("p", "p-i"): near} and both.cannot == []
    for left_s in (0.0, -5.0, (far - 1) * each_s):
        none = plan([one], left_s)
        assert none.blocks == {} and none.cannot == ["p lead-j", "p lead-i"]
        assert "no blocks for what cannot be decided within the" in " ".join(none.words())


def test_findings_of_one_campaign_share_its_blocks(tmp_path: Path, run: Run) -> None:
    one = open_paper(tmp_path, run, {"i": 1.12})
    again = replace(one, findings=[*one.findings, replace(
        one.findings[0], finding=one.findings[0].finding.model_copy(update={"name": "twin"})
    )])  # fmt: skip
    made = plan([again], needs(one, "i") * block_s(one.measured["p-i"]) + 1)
    assert made.decides == ["p lead-i", "p twin"]


def test_what_no_blocks_decide_gets_none(tmp_path: Path, run: Run) -> None:
    """A ratio at its bound, and campaigns that had their second stage, are not chosen or lack
    trials of the first."""
    one = open_paper(tmp_path, run, {"i": 1.12})
    at_bound = finding(left={"switch": B}, right={"switch": A}, at_least=1.12)
    rows = one.measured["p-i"].rows
    judged = judge(at_bound, {"i": rows})
    assert judged.tried[0].value == pytest.approx(1.12)
    told = outlook(one.paper, judged, one.measured)
    assert told == NOT_IN_A_DAY
    assert plan([replace(one, findings=[judged])], 86400.0).blocks == {}
    held = one.measured["p-i"]
    for other in (
        replace(one, chosen=set()),
        replace(one, measured={"p-i": replace(held, blocks=Blocks(6, 6))}),
        replace(one, measured={"p-i": replace(held, blocks=Blocks(7))}),
    ):
        assert plan([other], 1e9).blocks == {}


def test_what_it_would_take_is_said(tmp_path: Path, run: Run) -> None:
    one = open_paper(tmp_path, run, {"i": 1.12})
    (judged,) = one.findings
    told = outlook(one.paper, judged, one.measured)
    assert told.startswith(f"about {needs(one, 'i')} more blocks of i (")
    assert told.endswith(") would probably decide it")
    held = one.measured["p-i"]
    begun = {"p-i": replace(held, blocks=Blocks(6, 5, is_over=False))}
    assert outlook(one.paper, judged, begun) == "the second stage is not over"
    over = open_paper(tmp_path / "over", run, {"i": 1.04}, Blocks(6, 6), stages=2)
    anew = outlook(over.paper, over.findings[0], over.measured)
    assert anew.startswith("measured again, about ") and " more " not in anew
    begun_rows = [replace(row, planned=9) for row in held.rows]
    early = judge(lead("i", "lead"), {"i": begun_rows})
    assert early.verdict is FindingVerdict.UNDECIDED
    assert outlook(one.paper, early, one.measured) == (
        "the first stage is not over: the same command goes on with it"
    )
    few = [with_values(row, [1.0]) for row in held.rows]
    alone = judge(lead("i", "few"), {"i": few})
    assert outlook(one.paper, alone, one.measured) == "one block shows no spread"
    holds = JudgedFinding(judged.finding, FindingVerdict.HOLDS, "", judged.tried)
    assert outlook(one.paper, holds, one.measured) == ""


def test_a_part_that_was_not_tried_is_no_reason_for_blocks(tmp_path: Path, run: Run) -> None:
    one = open_paper(tmp_path, run, {"i": 1.12})
    (judged,) = one.findings
    partly = replace(judged, is_whole=False)
    other = plan([replace(one, findings=[partly])], 1e9)
    assert other.blocks.get(("p", "p-i"), math.inf) > needs(one, "i"), "it can only be refuted"


EQUAL = dict.fromkeys(("raw", "raw-mmsg", "udp", "udp-mmsg"), 1.0)


def test_a_second_stage_counts_when_it_is_over(tmp_path: Path) -> None:
    held = read_paper("ara2021")
    name = held.item("table2").campaign
    trials = [
        synthetic_trial(switch="linux-bridge", io=io, packet_size_bytes=64).repeated(block)
        for block in range(7)
        for io in EQUAL
    ]
    records = loads([synthetic_record(trial, marks=[]) for trial in trials], EQUAL, 1)
    root = folder_of(held, tmp_path)
    directory = write_run(root, records[:12], campaign=name, repetitions=3)

    def read() -> tuple[MeasuredCampaign, list[tuple[int, ...]]]:
        one = read_measured(held, tmp_path)[name]
        return one, [tuple(stage.finished for stage in row.stages) for row in one.rows]

    one, stages = read()
    assert one.blocks == Blocks(3) and stages == [()] * 4 and settings_of(one.run) == []
    assert {row.planned for row in one.rows} == {0}, "the first stage is over"
    goes_on = settings_of(one.run, 7)
    assert goes_on == ["repetitions=7"]
    settings = {"set": ["duration=1s", *goes_on]}
    with Run.resume(directory, campaign_text="", settings=settings, host={}):
        one, stages = read()
    assert one.blocks == Blocks(3, 4, is_over=False) and stages == [(3,)] * 4, "nothing of it yet"
    with Run.resume(directory, campaign_text="", settings=settings, host={}) as run:
        for record in records[12:-1]:
            run.write(record)
    one, stages = read()
    assert one.blocks == Blocks(3, 4, is_over=False) and stages == [(3,)] * 4
    assert settings_of(one.run) == goes_on, "and is gone on with"
    with Run.resume(directory, campaign_text="", settings=settings, host={}) as run:
        run.write(records[-1])
    one, stages = read()
    assert one.blocks == Blocks(3, 4) and stages == [(3, 4)] * 4
    assert {row.finished for row in one.rows} == {7}, "tables have all of them"
    page = make_page(held, THERE, tmp_path, [held.item("table2")])
    for told in (as_html([page]), as_markdown([page])):
        assert "4 repetitions more in a second stage" in told
        assert "would probably decide it" in told or NOT_IN_A_DAY in told


@pytest.mark.parametrize("wrong", ["repetitions=-1", "repetitions=x", "repetitions=2", "other=9"])
def test_a_resumption_without_further_blocks_begins_no_second_stage(
    tmp_path: Path, wrong: str
) -> None:
    directory = write_run(tmp_path, [synthetic_record()], repetitions=3)
    with Run.resume(directory, campaign_text="", settings={"set": [wrong]}, host={}):
        assert settings_of(open_run(directory)) == []


def test_a_first_stage_that_is_not_over_is_judged_as_an_early_look(tmp_path: Path) -> None:
    """By what is there of it, at a level of its own, until its last block."""
    held = read_paper("ara2021")
    name = held.item("table2").campaign
    leads = {"raw": 1.0, "raw-mmsg": 2.0, "udp": 0.9, "udp-mmsg": 1.1}
    trials = [
        synthetic_trial(switch="linux-bridge", io=io, packet_size_bytes=64).repeated(block)
        for block in range(4)
        for io in leads
    ]
    records = loads([synthetic_record(trial, marks=[]) for trial in trials], leads, 1)
    directory = write_run(folder_of(held, tmp_path), records[:12], campaign=name, repetitions=4)

    def lows(planned: int) -> list[float]:
        rows = read_measured(held, tmp_path)[name].rows
        assert {row.planned for row in rows} == {planned}
        return [one.low or 0.0 for one in judge(held.findings[0], {"table2": list(rows)}).tried]

    early = lows(4)
    with Run.resume(directory, campaign_text="", settings={}, host={}) as run:
        for record in records[12:]:
            run.write(record)
    over = lows(0)
    assert early and all(a < b for a, b in zip(early, over, strict=True))
