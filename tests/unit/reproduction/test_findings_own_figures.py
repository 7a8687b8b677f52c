"""Findings are not contradicted by the published values of their paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.campaign.find import find_campaign
from switchmark.model.campaign import Published
from switchmark.model.trial import Trial
from switchmark.reproduction import claims, ratio_test
from switchmark.reproduction.findings import judge
from switchmark.reproduction.paper import Figure, Paper, read_paper
from switchmark.results.findings import FindingVerdict
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate, estimate
from tests.unit.reproduction.test_findings import NEAR, THERE, A, block_of, rows_of

GAP_BYTES = 20  # between two frames on a wire, preamble included
HOLD = {  # findings with all their figures in the text
    "ara2021": {"sockets-order", "batch-calls"},
    "bonafiglia2015": {"bridge-twice-pcap", "dpdk-fastest", "ten-gbps"},
    "dagar2017": {
        "l2fwd-latency", "container-latency", "kernel-ovs-slower", "limit-less-throughput",
        "limit-proportional", "limit-jitter", "neighbour-jitter", "pinning",
        "kernel-container-overhead", "kernel-container-jitter",
    },
    "zhang2019": {
        "p2p-order", "p2p-saturated", "p2p-large", "p2p-exceed-10", "bess-p2v", "p2v-line-rate",
        "bess-vhost", "vpp-both-ways", "vpp-reversed", "heavy-load-slower",
        "batches-at-low-load", "fastclick-batches", "p2p-heavy-load", "p2p-low-load",
        "p2p-normal-load", "snabb-leap", "t4p4s-normal-load", "t4p4s-heavy-load",
        "ovs-dpdk-heavy-load", "ovs-dpdk-four-vnfs", "vpp-below-fastclick", "latency-grows",
        "v2v-order",
    },
}  # fmt: skip


def value_of(value: Published, figure: Figure, trial: Trial) -> float | None:
    """The published value as the figure that a claim compares. Bits are converted to frames."""
    if figure.is_of(value):
        return value.value
    if value.unit != "bps" or figure.unit != "pps":
        return None
    gap = GAP_BYTES if value.layer == "L1" else 0
    return value.value / (8 * (trial.packet_size_bytes + gap))


def published_rows(
    paper: Paper, row: SummaryRow
) -> tuple[dict[str, list[SummaryRow]], dict[int, list[Published]]]:
    """Trials with published values as rows of the paper's machine (item -> rows), and their values
    (row -> values)."""
    rows: dict[str, list[SummaryRow]] = {}
    values: dict[int, list[Published]] = {}
    for item in paper.items:
        if item.campaign not in rows:
            published = find_campaign(item.campaign, THERE.known).published
            trials = block_of(item.campaign) if published else []
            rows[item.campaign] = []
            for trial in trials:
                if known := [value for value in published if value.matches(trial)]:
                    value = replace(
                        row, trial=trial, contender=trial.switch, one_machine=False,
                        oversubscribed=False,
                    )  # fmt: skip
                    rows[item.campaign].append(value)
                    values[id(value)] = known
        rows[item.name] = [value for value in rows[item.campaign] if item.shows(value.trial)]
    return rows, values


@pytest.mark.parametrize("name", list(HOLD))
def test_papers_do_not_contradict_their_findings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = read_paper(name)
    (row,) = rows_of(tmp_path, {(A, 32): NEAR})
    rows, published = published_rows(paper, row)

    def estimate_of(value: SummaryRow, figure: Figure) -> Estimate | None:
        found = (value_of(known, figure, value.trial) for known in published.get(id(value), ()))
        value = next((known for known in found if known is not None), None)
        return None if value is None else estimate([value * near for near in NEAR])

    for module in (claims, ratio_test):
        monkeypatch.setattr(module, "estimate_of", estimate_of)
    judged = {value.name: judge(value, rows) for value in paper.findings}
    assert not {
        known: value.why
        for known, value in judged.items()
        if value.verdict is FindingVerdict.CONTRADICTED
    }
    holding = {known for known, value in judged.items() if value.verdict is FindingVerdict.HOLDS}
    assert holding >= HOLD[name]
