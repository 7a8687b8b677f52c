"""Findings of a campaign: read from its file, and judged by pairs of trials in the same block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.model.finding import CampaignFinding
from switchmark.model.functions import read_functions
from switchmark.model.trial import Trial
from switchmark.record.metric import RUN_METRICS
from switchmark.report.summary_words import summarise_in_words
from switchmark.results.blocks import Observed
from switchmark.results.findings import FindingVerdict, judge_findings
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from tests.unit.campaign_fakes import KNOWN
from tests.unit.records import synthetic_record, synthetic_trial, write_run

FORWARDED = RUN_METRICS[0]
CAMPAIGN = """
name: full
switch: [linux-bridge, ovs-dpdk]
packet_size: 64
function: forward+acl
rules: 0, 100
findings:
  - name: table
    statement: A list costs a fifth
    source: Somebody 2020
    claims:
      - {where: {switch: ovs-dpdk}, left: {rules: 100}, right: {rules: 0}, CLAIM}
"""


def finding(claim: str) -> CampaignFinding:
    campaign = load_text(CAMPAIGN.replace("CLAIM", claim), "c.yaml", KNOWN)
    return campaign.findings[0]


def observed(shares: dict[str, list[float]]) -> tuple[list[Observed], dict[str, str]]:
    """Return trials whose rate with rules is this share of the rate without, block by block."""
    items, names = [], {}
    for switch, each in shares.items():
        for rules in (0, 100):
            trial = Trial(
                dimension="throughput", switch=switch, packet_size_bytes=64,
                function=read_functions("forward+acl"), rules=rules,
            )  # fmt: skip
            names[trial.id] = switch
            for block, share in enumerate(each):
                # Blocks differ in speed, both trials of a block alike.
                rate = (1 + block % 3) * 1e6 * (share if rules else 1.0)
                items.append(
                    Observed(trial=trial, block=block, part=0, start_s=10.0 * block,
                             end_s=10.0 * block + 1, figures={FORWARDED: rate})
                )  # fmt: skip
    return items, names


SHARES = [0.80, 0.81, 0.79, 0.80, 0.82, 0.78]


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("at_least: 0.7, at_most: 0.9", FindingVerdict.HOLDS),
        ("at_least: 0.9", FindingVerdict.CONTRADICTED),
        ("at_most: 0.7", FindingVerdict.CONTRADICTED),
        ("at_least: 0.801", FindingVerdict.UNDECIDED),
        ("at_least: 0.7, figure: rtt-p50", FindingVerdict.CANNOT),
    ],
)
def test_a_finding_is_judged_by_its_interval(claim: str, verdict: FindingVerdict) -> None:
    items, names = observed({"ovs-dpdk": SHARES, "linux-bridge": [0.1] * 6})
    (result,) = judge_findings([finding(claim)], items, names)
    assert result.verdict is verdict
    assert [one.contender for one in result.tried] == ["ovs-dpdk"] * (
        verdict is not FindingVerdict.CANNOT
    )


def test_a_finding_has_its_interval_and_the_published_ratio() -> None:
    items, names = observed({"ovs-dpdk": SHARES})
    (result,) = judge_findings(
        [finding("at_least: 0.7, at_most: 0.9, published: 0.82")], items, names
    )
    assert re.fullmatch(
        r"Published finding holds: A list costs a fifth \(Somebody 2020\)\. "
        r"Here: ovs-dpdk, 100 rules / 0 rules: "
        r"0\.80 \(0\.7\d to 0\.8\d\), expected 0\.7 to 0\.9, published 0\.82",
        result.words,
    )


def test_two_blocks_decide_nothing() -> None:
    items, names = observed({"ovs-dpdk": [0.8, 0.8]})
    (result,) = judge_findings([finding("at_least: 0.7")], items, names)
    assert result.verdict is FindingVerdict.UNDECIDED
    assert "only 2 pairs of trials" in result.words


def test_a_missing_switch_is_named() -> None:
    items, names = observed({"linux-bridge": SHARES})
    (result,) = judge_findings([finding("at_least: 0.7")], items, names)
    assert result.verdict is FindingVerdict.CANNOT
    assert result.words == (
        "Published finding, not tried here: A list costs a fifth (Somebody 2020). "
        "Reason: this run has no such figure of ovs-dpdk"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("CLAIM", "at_lest: 1", "at_lest"),
        ("CLAIM", "published: 0.8", "has no bound; write at_least, at_most or both"),
        ("CLAIM", "at_least: 0.9, at_most: 0.8", "at_least is above at_most; exchange them"),
        ("CLAIM", "at_least: 0", "a ratio is above 0; write e.g. 0.8"),
        ("CLAIM", "at_least: 1, figure: rat", "figure"),
        ("right: {rules: 0}, CLAIM", "right: {rules: 7}, at_least: 1", "no trial has rules 7"),
        ("right: {rules: 0}, CLAIM", "at_least: 1", "right is missing"),
        ("    source: Somebody 2020\n", "", "source is missing"),
        ("name: table", "name: a b", "write letters, digits"),
    ],
)
def test_a_mistake_in_a_finding_is_named(old: str, new: str, message: str) -> None:
    text = CAMPAIGN.replace(old, new).replace("CLAIM", "at_least: 1")
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        load_text(text, "c.yaml", KNOWN)
    assert str(error.value).startswith("c.yaml:")


def test_a_summary_has_the_findings(tmp_path: Path) -> None:
    keys = {"switch": "ovs-dpdk", "function": read_functions("forward+acl")}
    records = [
        synthetic_record(synthetic_trial(**keys, rules=rules, repetition=block), number=2 * block)
        for block in range(5)
        for rules in (0, 100)
    ]
    definition = finding("at_least: 0.5").model_dump(mode="json")
    directory = write_run(tmp_path, records, findings=[definition])
    rows = summary(directory)
    found = summarise_in_words(open_run(directory), rows, rows, ())
    (text,) = found.findings
    assert text.startswith("Published finding holds: A list costs a fifth")
