"""The second stage of a reproduction: its blocks, their number, and the judgement of a run with
them. Figures are simulated."""

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
    """Deterministic figures with this geometric mean and the spread."""
    values = np.linspace(-1, 1, blocks)
    return (mean * np.exp(SPREAD * values / values.std(ddof=1))).tolist()


def with_values(row: SummaryRow, values: Sequence[float], *, stages: int = 1) -> SummaryRow:
    """The row with these figures, divided into stages of equal size."""
    assert row.throughput is not None
    load = replace(row.throughput, forwarded_pps=estimate(values))
    row = replace(row, throughput=load, finished=len(values))
    if stages == 1:
        return row
    size = len(values) // stages
    parts = (values[at : at + size] for at in range(0, len(values), size))
    return replace(row, stages=tuple(with_values(row, opened) for opened in parts))


def test_simulated_findings_at_their_bound_are_rarely_decided(tmp_path: Path) -> None:
    """Three ratios are judged after the first stage and, if open, after a second stage."""
    sizes = (32, 64, 128)
    rows = rows_of(tmp_path, {(opened, size): (1.0, 1.0) for opened in (A, B) for size in sizes})
    claimed = finding(left={"switch": A}, right={"switch": B}, at_least=0.9, at_most=2)
    draws, decided = 120, 0
    for seed in range(draws):
        source = np.random.default_rng(seed)
        drawn = {
            row.notation: source.normal(math.log(0.9) if row.trial.switch == A else 0, SPREAD, 12)
            for row in rows
        }
        for stages in (1, 2):
            texts = [
                with_values(row, np.exp(drawn[row.notation][: 6 * stages]).tolist(), stages=stages)
                for row in rows
            ]
            verdict = judge(claimed, {"i": texts}).verdict
            if verdict is not FindingVerdict.UNDECIDED:
                decided += 1
                break
    assert binomtest(decided, draws, 0.05, alternative="greater").pvalue > 0.01, decided


def paper(*findings: PaperFinding) -> Paper:
    named = {"authors": "X", "year": 2020, "title": "t", "where": "w", "machine": "m"}
    items = [Item(name=opened, title="t", section="1", campaign=f"p-{opened}") for opened in "ij"]
    return Paper.model_validate(
        named | {"name": "p", "method": "m", "target": "t", "items": items, "findings": findings}
    )


def lead(item: str, name: str, switch: str = B) -> PaperFinding:
    claimed = finding(item=item, order=[[switch], [A]])
    return claimed.model_copy(update={"name": name})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return open_run(write_run(tmp_path / "run", [synthetic_record()]))


def open_paper(
    tmp_path: Path, run: Run, leads: dict[str, float], blocks: Blocks = SIX, stages: int = 1
) -> OpenPaper:
    """A paper with a finding for each item: B leads A by this ratio."""
    measured, findings = {}, []
    for item, ratio in leads.items():
        rows = rows_of(tmp_path / item, {(A, 32): (1.0, 1.0), (B, 32): (1.0, 1.0)})
        texts = [
            with_values(
                row, shaped(ratio if row.trial.switch == B else 1.0) * stages, stages=stages
            )
            for row in rows
        ]
        measured[f"p-{item}"] = MeasuredCampaign(run, tuple(texts), blocks)
        findings.append(lead(item, f"lead-{item}"))
    rows_by = {name.removeprefix("p-"): paper_.rows for name, paper_ in measured.items()}
    judged = [judge(opened, rows_by) for opened in findings]
    assert all(opened.verdict is FindingVerdict.UNDECIDED for opened in judged), [
        opened.why for opened in judged
    ]
    return OpenPaper(paper(*findings), judged, measured, set(measured))


def needs(opened: OpenPaper, item: str) -> int:
    """Return the planned blocks of an item with unlimited time."""
    alone = replace(opened, chosen={f"p-{item}"})
    return plan([alone], 1e9).blocks["p", f"p-{item}"]


def test_time_goes_first_to_the_cheapest_finding(tmp_path: Path, run: Run) -> None:
    opened = open_paper(tmp_path, run, {"i": 1.07, "j": 1.12})
    more, fewer = needs(opened, "i"), needs(opened, "j")
    assert more > fewer, "a small lead takes more blocks"
    each_s = block_s(opened.measured["p-i"])
    some = plan([opened], fewer * each_s + 1)
    assert some.blocks == {("p", "p-j"): fewer} and some.decides == ["p lead-j"]
    assert some.cannot == ["p lead-i"] and some.expected_s <= fewer * each_s + 1
    both = plan([opened], (more + fewer) * each_s + 1)
    assert both.blocks == {("p", "p-j"): fewer, ("p", "p-i"): more} and both.cannot == []
    for left_s in (0.0, -5.0, (fewer - 1) * each_s):
        none = plan([opened], left_s)
        assert none.blocks == {} and none.cannot == ["p lead-j", "p lead-i"]
        assert "no blocks for findings that cannot be decided" in " ".join(none.words())


def test_findings_of_one_campaign_share_its_blocks(tmp_path: Path, run: Run) -> None:
    opened = open_paper(tmp_path, run, {"i": 1.12})
    again = replace(opened, findings=[*opened.findings, replace(
        opened.findings[0], finding=opened.findings[0].finding.model_copy(update={"name": "twin"})
    )])  # fmt: skip
    stage = plan([again], needs(opened, "i") * block_s(opened.measured["p-i"]) + 1)
    assert stage.decides == ["p lead-i", "p twin"]


def test_undecidable_findings_get_no_blocks(tmp_path: Path, run: Run) -> None:
    """This applies to a ratio at its bound, and to campaigns that had their second stage, are not
    chosen, or lack trials of the first stage."""
    opened = open_paper(tmp_path, run, {"i": 1.12})
    at_bound = finding(left={"switch": B}, right={"switch": A}, at_least=1.12)
    rows = opened.measured["p-i"].rows
    judged = judge(at_bound, {"i": rows})
    assert judged.ratios[0].value == pytest.approx(1.12)
    texts = outlook(opened.paper, judged, opened.measured)
    assert texts == NOT_IN_A_DAY
    assert plan([replace(opened, findings=[judged])], 86400.0).blocks == {}
    paper_ = opened.measured["p-i"]
    for other in (
        replace(opened, chosen=set()),
        replace(opened, measured={"p-i": replace(paper_, blocks=Blocks(6, 6))}),
        replace(opened, measured={"p-i": replace(paper_, blocks=Blocks(7))}),
    ):
        assert plan([other], 1e9).blocks == {}


def test_outlook_names_the_blocks_of_a_decision(tmp_path: Path, run: Run) -> None:
    opened = open_paper(tmp_path, run, {"i": 1.12})
    (judged,) = opened.findings
    texts = outlook(opened.paper, judged, opened.measured)
    assert texts.startswith(f"about {needs(opened, 'i')} more blocks of i (")
    assert texts.endswith(") would probably decide it")
    paper_ = opened.measured["p-i"]
    begun = {"p-i": replace(paper_, blocks=Blocks(6, 5, is_over=False))}
    assert outlook(opened.paper, judged, begun) == "the second stage is not over"
    over = open_paper(tmp_path / "over", run, {"i": 1.04}, Blocks(6, 6), stages=2)
    anew = outlook(over.paper, over.findings[0], over.measured)
    assert anew.startswith("measured again, about ") and " more " not in anew
    begun_rows = [replace(row, planned=9) for row in paper_.rows]
    early = judge(lead("i", "lead"), {"i": begun_rows})
    assert early.verdict is FindingVerdict.UNDECIDED
    assert outlook(opened.paper, early, opened.measured) == (
        "the first stage is not over: the same command continues it"
    )
    few = [with_values(row, [1.0]) for row in paper_.rows]
    alone = judge(lead("i", "few"), {"i": few})
    assert outlook(opened.paper, alone, opened.measured) == "one block shows no spread"
    holds = JudgedFinding(judged.finding, FindingVerdict.HOLDS, "", judged.ratios)
    assert outlook(opened.paper, holds, opened.measured) == ""


def test_missing_part_needs_blocks_to_refute(tmp_path: Path, run: Run) -> None:
    opened = open_paper(tmp_path, run, {"i": 1.12})
    (judged,) = opened.findings
    partly = replace(judged, is_whole=False)
    other = plan([replace(opened, findings=[partly])], 1e9)
    assert other.blocks.get(("p", "p-i"), math.inf) > needs(opened, "i"), "it can only be refuted"


EQUAL = dict.fromkeys(("raw", "raw-mmsg", "udp", "udp-mmsg"), 1.0)


def test_second_stage_counts_when_it_is_over(tmp_path: Path) -> None:
    paper_ = read_paper("ara2021")
    name = paper_.item("table2").campaign
    trials = [
        synthetic_trial(switch="linux-bridge", io=io, packet_size_bytes=64).repeated(block)
        for block in range(7)
        for io in EQUAL
    ]
    records = loads([synthetic_record(trial, marks=[]) for trial in trials], EQUAL, 1)
    root = folder_of(paper_, tmp_path)
    directory = write_run(root, records[:12], campaign=name, repetitions=3)

    def read() -> tuple[MeasuredCampaign, list[tuple[int, ...]]]:
        opened = read_measured(paper_, tmp_path)[name]
        return opened, [tuple(stage.finished for stage in row.stages) for row in opened.rows]

    opened, stages = read()
    assert opened.blocks == Blocks(3) and stages == [()] * 4 and settings_of(opened.run) == []
    assert {row.planned for row in opened.rows} == {0}, "the first stage is over"
    goes_on = settings_of(opened.run, 7)
    assert goes_on == ["repetitions=7"]
    settings = {"set": ["duration=1s", *goes_on]}
    with Run.resume(directory, campaign_text="", settings=settings, host={}):
        opened, stages = read()
    assert opened.blocks == Blocks(3, 4, is_over=False) and stages == [(3,)] * 4, (
        "the second stage does not count yet"
    )
    with Run.resume(directory, campaign_text="", settings=settings, host={}) as run:
        for record in records[12:-1]:
            run.write(record)
    opened, stages = read()
    assert opened.blocks == Blocks(3, 4, is_over=False) and stages == [(3,)] * 4
    assert settings_of(opened.run) == goes_on, "it is resumed"
    with Run.resume(directory, campaign_text="", settings=settings, host={}) as run:
        run.write(records[-1])
    opened, stages = read()
    assert opened.blocks == Blocks(3, 4) and stages == [(3, 4)] * 4
    assert {row.finished for row in opened.rows} == {7}, "tables have all repetitions"
    page = make_page(paper_, THERE, tmp_path, [paper_.item("table2")])
    for texts in (as_html([page]), as_markdown([page])):
        assert "4 repetitions more in a second stage" in texts
        assert "would probably decide it" in texts or NOT_IN_A_DAY in texts


@pytest.mark.parametrize("wrong", ["repetitions=-1", "repetitions=x", "repetitions=2", "other=9"])
def test_resumption_without_more_blocks_has_no_stage(tmp_path: Path, wrong: str) -> None:
    directory = write_run(tmp_path, [synthetic_record()], repetitions=3)
    with Run.resume(directory, campaign_text="", settings={"set": [wrong]}, host={}):
        assert settings_of(open_run(directory)) == []


def test_unfinished_first_stage_is_an_early_analysis(tmp_path: Path) -> None:
    """Its blocks so far are judged at a separate level."""
    paper_ = read_paper("ara2021")
    name = paper_.item("table2").campaign
    leads = {"raw": 1.0, "raw-mmsg": 2.0, "udp": 0.9, "udp-mmsg": 1.1}
    trials = [
        synthetic_trial(switch="linux-bridge", io=io, packet_size_bytes=64).repeated(block)
        for block in range(4)
        for io in leads
    ]
    records = loads([synthetic_record(trial, marks=[]) for trial in trials], leads, 1)
    directory = write_run(folder_of(paper_, tmp_path), records[:12], campaign=name, repetitions=4)

    def lows(planned: int) -> list[float]:
        rows = read_measured(paper_, tmp_path)[name].rows
        assert {row.planned for row in rows} == {planned}
        return [
            opened.low or 0.0 for opened in judge(paper_.findings[0], {"table2": list(rows)}).ratios
        ]

    early = lows(4)
    with Run.resume(directory, campaign_text="", settings={}, host={}) as run:
        for record in records[12:]:
            run.write(record)
    over = lows(0)
    assert early and all(a < b for a, b in zip(early, over, strict=True))
