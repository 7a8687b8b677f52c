"""Papers as data: every item has a campaign, findings are judged by ratios, the page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.find import PAPERS, _names, find_campaign
from switchmark.campaign.installed import installed
from switchmark.campaign.overhead import usual_around_s
from switchmark.cli.main import run as switchmark
from switchmark.environment.registry import traits_of
from switchmark.errors import UsageError
from switchmark.model.parameter_table import BY_NAME
from switchmark.model.scenario import Scenario
from switchmark.model.trial import Trial
from switchmark.record.runs import FarHost
from switchmark.reproduction import claims, ratio_test
from switchmark.reproduction.budget import FULL, block_s, fit, shortest_s
from switchmark.reproduction.claims import tries
from switchmark.reproduction.findings import SHARED, judge
from switchmark.reproduction.page import as_html, as_markdown, make_page
from switchmark.reproduction.paper import (
    Figure,
    Paper,
    PaperFinding,
    fulfils,
    paper_names,
    read_paper,
)
from switchmark.reproduction.ratio_test import estimate_of
from switchmark.reproduction.run import GUESTS, StandIns, folder_of, read_measured, standing_by_item
from switchmark.reproduction.state import ItemState
from switchmark.results.findings import FindingVerdict
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.results.summary import summary
from switchmark.simulation.switch import Behaviour
from switchmark.statistics.means import estimate
from tests.unit.method_fakes import run_simulated
from tests.unit.records import synthetic_record, synthetic_trial, write_run

THERE = installed()


@pytest.mark.parametrize("name", paper_names())
def test_items_have_campaigns_and_findings_have_items(name: str) -> None:
    paper = read_paper(name)
    for item in paper.items:
        campaign = find_campaign(item.campaign, THERE.known)
        trials = expand(campaign, THERE.switches, THERE.environments)
        assert any(item.shows(trial) for trial in trials), f"{item.name} shows nothing"
        assert item.form != "lines" or item.x in BY_NAME
        if item.coarse:
            coarse = find_campaign(item.campaign, THERE.known, list(item.coarse))
            assert coarse.count <= campaign.count
        for item_ in item.stand_in:
            assert find_campaign(item.campaign, THERE.known, list(item_.set)).count
    for finding in paper.findings:
        assert bool(finding.claims) != bool(finding.cannot), finding.name
        for claim in finding.claims:
            item = paper.item(claim.item)
            standing = [setting for item_ in item.stand_in for setting in item_.set]
            settings = standing if claim.stand_in == "only" else []
            campaign = find_campaign(item.campaign, THERE.known, settings)
            trials = expand(campaign, THERE.switches, THERE.environments)
            for where in (claim.where, claim.left or {}, claim.right or {}):
                assert any(fulfils(trial, where) for trial in trials), (finding.name, where)
            few = find_campaign(item.campaign, THERE.known, list(item.coarse))
            over = claim.over or claim.rises or claim.falls or claim.flattens
            if over is not None:
                left = expand(few, THERE.switches, THERE.environments)
                field = BY_NAME[over].field
                values = {getattr(item_, field) for item_ in left if fulfils(item_, claim.where)}
                least = 3 if claim.flattens else 2
                assert len(values) >= least, (
                    f"{finding.name}: nothing to compare over {over}, if coarse"
                )
            if claim.other_item is None:
                continue
            others = expand(
                find_campaign(paper.item(claim.other_item).campaign, THERE.known),
                THERE.switches,
                THERE.environments,
            )
            fields = [BY_NAME[key].field for key in claim.alike]
            assert any(
                all(getattr(a, item_) == getattr(b, item_) for item_ in fields)
                for a in trials
                if fulfils(a, claim.where)
                for b in others
                if fulfils(b, claim.other_where)
            ), f"{finding.name}: nothing of {claim.other_item} is alike"


def rows_of_paper(paper: Paper, row: SummaryRow, *, coarse: bool) -> dict[str, list[SummaryRow]]:
    """Every trial of the paper's items as a row, on the paper's machine (NICs, cores, every
    switch), and with all substitutes."""
    found: dict[str, list[SummaryRow]] = {}
    for item in paper.items:
        standing = [setting for item_ in item.stand_in for setting in item_.set]
        found[item.campaign] = [
            replace(
                row, trial=trial, contender=trial.switch, one_machine=False, oversubscribed=False
            )
            for settings in ([], standing)
            for trial in block_of(item.campaign, *settings, *(item.coarse if coarse else ()))
        ]
        found[item.name] = [item_ for item_ in found[item.campaign] if item.shows(item_.trial)]
    return found


def sharing(rows: Mapping[str, Sequence[SummaryRow]]) -> dict[str, list[SummaryRow]]:
    """The rows with applications that share cores."""
    return {
        name: [replace(item_, oversubscribed=True) for item_ in of] for name, of in rows.items()
    }


@pytest.mark.parametrize("coarse", [False, True], ids=["full", "coarse"])
@pytest.mark.parametrize("name", paper_names())
def test_claims_compare_all_switches_that_they_name(
    name: str, coarse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with few points, except for findings that need more than most machines have."""
    for module in (claims, ratio_test):
        monkeypatch.setattr(module, "estimate_of", lambda _row, _figure: estimate((1.0, 1.0)))
    paper = read_paper(name)
    (row,) = rows_of(tmp_path, {(A, 32): NEAR})
    rows = rows_of_paper(paper, row, coarse=coarse)
    for finding in paper.findings:
        for claim in () if coarse and finding.needs else finding.claims:
            shared = claim.cores == "lacking"
            changed = " ".join(
                item_.label for item_ in tries(claim, sharing(rows) if shared else rows)
            )
            assert changed, f"{finding.name}: no ratio of {claim.item}"
            groups = [*claim.order, *claim.steady]
            named = [item_ for group in groups for item_ in group]
            for side in (claim.left or {}, claim.right or {}):
                named += [item_ for item_ in side.get("switch", "").split(", ") if item_]
            for switch in named:
                assert switch in changed, f"{finding.name}: {switch} is compared with nothing"


def test_campaigns_of_papers_belong_to_items() -> None:
    latest = {item.campaign for name in paper_names() for item in read_paper(name).items}
    assert latest == set(_names(PAPERS))


def rows_of(tmp_path: Path, rates: dict[tuple[str, int], Sequence[float]]) -> list[SummaryRow]:
    """Rows of switches and bursts with these forwarded rates, one a repetition."""
    records = [
        synthetic_record(synthetic_trial(switch=switch, burst=burst), number=number)
        for number, (switch, burst) in enumerate(rates)
    ]
    found = []
    for row in summary(write_run(tmp_path, records)):
        assert row.throughput is not None
        values = estimate(rates[row.trial.switch, row.trial.burst])
        found.append(replace(row, throughput=replace(row.throughput, forwarded_pps=values)))
    return found


def finding(**claim: object) -> PaperFinding:
    return PaperFinding.model_validate(
        {"name": "f", "section": "1", "statement": "w", "claims": [{"item": "i", **claim}]}
    )


A, B = "ovs-dpdk", "basicfwd"
NEAR = (1.0, 1.002, 0.998)


@pytest.mark.parametrize(
    ("claim", "rates", "verdict"),
    [
        ({"over": "burst", "power": 0, "within": 0.1},
         {(A, 32): NEAR, (A, 64): NEAR}, FindingVerdict.HOLDS),
        ({"over": "burst", "power": 0, "within": 0.1},
         {(A, 32): NEAR, (A, 64): (2.0, 2.01, 2.02)}, FindingVerdict.CONTRADICTED),
        ({"over": "burst", "power": 0, "within": 0.1},
         {(A, 32): (0.5, 1.0, 2.0), (A, 64): NEAR}, FindingVerdict.UNDECIDED),
        ({"over": "burst", "power": -1, "within": 0.1},
         {(A, 32): NEAR, (A, 64): (0.5, 0.501, 0.499)}, FindingVerdict.HOLDS),
        ({"over": "burst", "power": 1, "within": 0.1},
         {(A, 32): NEAR, (A, 64): NEAR}, FindingVerdict.CONTRADICTED),
        ({"falls": "burst"}, {(A, 32): NEAR, (A, 64): (0.5, 0.501, 0.499)}, FindingVerdict.HOLDS),
        ({"flattens": "burst"},
         {(A, 32): NEAR, (A, 64): (2.0, 2.01, 1.99), (A, 128): (2.5, 2.51, 2.49)},
         FindingVerdict.HOLDS),
        ({"flattens": "burst"},
         {(A, 32): NEAR, (A, 64): (2.0, 2.01, 1.99), (A, 128): (6.0, 6.01, 5.99)},
         FindingVerdict.CONTRADICTED),
        ({"flattens": "burst"},
         {(A, 32): NEAR, (A, 64): (0.9, 0.91, 0.89), (A, 128): (2.5, 2.51, 2.49)},
         FindingVerdict.UNDECIDED),
        ({"order": [[B], [A]]},
         {(A, 32): NEAR, (B, 32): (2.0, 2.01, 1.99)}, FindingVerdict.HOLDS),
        ({"order": [[A], [B]]},
         {(A, 32): NEAR, (B, 32): (2.0, 2.01, 1.99)}, FindingVerdict.CONTRADICTED),
        ({"left": {"switch": A}, "right": {"switch": B}, "at_least": 0.9, "at_most": 1.1},
         {(A, 32): NEAR, (B, 32): NEAR}, FindingVerdict.HOLDS),
        ({"than": {}, "at_least": 0.9, "at_most": 1.1}, {(A, 32): NEAR}, FindingVerdict.HOLDS),
        ({"than": {}, "at_least": 1.5}, {(A, 32): NEAR}, FindingVerdict.CONTRADICTED),
        ({"than": {"unit": "us", "at": 0.5}}, {(A, 32): NEAR}, FindingVerdict.CANNOT),
        ({"order": [[B], [A]]}, {(A, 32): (1.0,), (B, 32): (2.0,)}, FindingVerdict.UNDECIDED),
        ({"order": [[B], [A]]}, {(A, 32): NEAR, (B, 32): NEAR}, FindingVerdict.CONTRADICTED),
        ({"order": [[B], [A]]},
         {(A, 32): NEAR, (B, 32): (1.02, 1.021, 1.019)}, FindingVerdict.CONTRADICTED),
        ({"order": [[B], [A]]},
         {(A, 32): NEAR, (B, 32): (1.0, 1.05, 1.1)}, FindingVerdict.UNDECIDED),
        ({"left": {"switch": B}, "right": {"switch": A}, "at_least": 1},
         {(A, 32): NEAR, (B, 32): NEAR}, FindingVerdict.CONTRADICTED),
        ({"falls": "burst"}, {(A, 32): NEAR, (A, 64): NEAR}, FindingVerdict.CONTRADICTED),
        ({"order": [[B], ["vpp"]]}, {(A, 32): NEAR}, FindingVerdict.CANNOT),
    ],
)  # fmt: skip
def test_findings_have_the_proven_verdict(
    tmp_path: Path,
    claim: dict[str, object],
    rates: dict[tuple[str, int], Sequence[float]],
    verdict: FindingVerdict,
) -> None:
    scaled = {who: [value * 1e6 for value in values] for who, values in rates.items()}
    judged = judge(finding(**claim), {"i": rows_of(tmp_path, scaled)})
    assert judged.verdict is verdict, judged.why


def test_finding_with_missing_part_does_not_hold(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {(A, 32): NEAR, (B, 32): (2.0, 2.01, 1.99)})
    item_, other = finding(order=[[B], [A]]), finding(item="j", order=[[B], [A]])
    both = item_.model_copy(update={"claims": (*item_.claims, *other.claims)})
    assert judge(item_, {"i": rows}).verdict is FindingVerdict.HOLDS
    judged = judge(both, {"i": rows})
    assert judged.verdict is FindingVerdict.UNDECIDED and judged.why.endswith(
        f"; not tried: j; with {SHARED}"
    )
    wrong = finding(order=[[A], [B]]).model_copy(update={"claims": (
        *finding(order=[[A], [B]]).claims, *other.claims
    )})  # fmt: skip
    assert judge(wrong, {"i": rows}).verdict is FindingVerdict.CONTRADICTED


def test_order_with_missing_step_does_not_hold(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {(A, 32): NEAR, (B, 32): (2.0, 2.01, 1.99)})
    judged = judge(finding(order=[[B], [A], ["vale", "t4p4s"]]), {"i": rows})
    assert judged.verdict is FindingVerdict.UNDECIDED
    assert judged.why.endswith(f"; not tried: {A} / vale, t4p4s; with {SHARED}")


def test_equal_figures_contradict_a_better_one(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {(A, 32): NEAR, (B, 32): NEAR})
    judged = judge(finding(order=[[B], [A]]), {"i": rows})
    assert judged.why.startswith(f"1 of 1 ratio lies outside: {B} / {A}: 1 [")
    assert judged.why.endswith(f"], no difference of 5 %; with {SHARED}")


def test_rows_of_two_items_with_equal_keys_are_compared(tmp_path: Path) -> None:
    fast = rows_of(tmp_path / "a", {(A, 32): (4e6, 4.01e6), (A, 64): (4e6, 4.01e6)})
    slow = rows_of(tmp_path / "b", {(B, 32): (1e6, 1.01e6)})
    claimed = finding(other_item="j", alike=["burst"], at_least=2)
    judged = judge(claimed, {"i": fast, "j": slow})
    assert judged.verdict is FindingVerdict.HOLDS
    assert [item_.label for item_ in judged.ratios] == [f"{A} / {B} of j"]
    assert judge(claimed, {"i": slow, "j": fast}).verdict is FindingVerdict.CONTRADICTED


@pytest.mark.parametrize(
    ("nics", "gbps", "verdict"),
    [
        ("eth2/eth3", (9.9, 9.91, 9.92), FindingVerdict.HOLDS),
        ("eth2/eth3", (5.0, 5.01, 5.02), FindingVerdict.CONTRADICTED),
        ("eth2/eth3", (8.0, 9.0, 11.0), FindingVerdict.UNDECIDED),
        ("", (9.9, 9.91, 9.92), FindingVerdict.CANNOT),
    ],
)
def test_claim_about_a_link_needs_a_link(
    tmp_path: Path, nics: str, gbps: Sequence[float], verdict: FindingVerdict
) -> None:
    trial = synthetic_trial(switch=A, scenario="p2p", nics=nics)
    (row,) = summary(write_run(tmp_path, [synthetic_record(trial)]))
    assert row.throughput is not None
    loads = replace(row.throughput, forwarded_l1_bps=estimate([item_ * 1e9 for item_ in gbps]))
    claim = {"figure": {"unit": "bps", "layer": "L1"}, "link": 1e10, "cable": True,
             "at_least": 0.97, "at_most": 1.01}  # fmt: skip
    claimed = finding(**claim).model_copy(update={"needs": "NICs"})
    judged = judge(claimed, {"i": [replace(row, throughput=loads)]}, ["i"])
    assert judged.verdict is verdict, judged.why
    if verdict is FindingVerdict.CANNOT:
        assert judged.why == "needs NICs"


def test_cable_on_one_machine_is_not_a_link(tmp_path: Path) -> None:
    for same, verdict in ((False, FindingVerdict.CONTRADICTED), (True, FindingVerdict.CANNOT)):
        far = FarHost(
            name="right", address="192.0.2.7", hostname="right", near_interface="a",
            far_interface="b", agent_version="1", engine_version="1", placement=None,
            clock_before=None, clock_after=None, facts={}, same_machine=same,
        )  # fmt: skip
        trial = synthetic_trial(switch=A, location="remote")
        records = [synthetic_record(trial.repeated(n), far_host=far) for n in range(3)]
        rows = summary(write_run(tmp_path / str(same), records))
        claim = {"figure": {"unit": "bps", "layer": "L1"}, "link": 1e11, "cable": True}
        assert judge(finding(**claim, at_least=0.97), {"i": rows}).verdict is verdict


def test_two_changes_are_compared(tmp_path: Path) -> None:
    rates = {(A, 4): NEAR, (A, 128): (2.0, 2.01, 1.99), (B, 4): NEAR, (B, 128): (0.9, 0.901, 0.899)}
    rows = rows_of(tmp_path, rates)
    judged = judge(finding(over="burst", steady=[[B], [A]]), {"i": rows})
    assert judged.verdict is FindingVerdict.HOLDS, "a tenth less is a smaller change than double"
    (only,) = judged.ratios
    assert only.value == pytest.approx((1 / 0.9) / 2, rel=0.01)
    judged = judge(finding(over="burst", steady=[[A], [B]]), {"i": rows})
    assert judged.verdict is FindingVerdict.CONTRADICTED


def test_fewer_cores_are_better(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {(A, 32): NEAR, (B, 32): NEAR})
    used = {A: (3.0, 3.01, 2.99), B: (2.0, 2.01, 1.99)}
    changed = [
        replace(row, cpu=replace(row.cpu, each_total_cores=used[row.trial.switch]))
        for row in rows
        if row.cpu is not None
    ]
    claimed = finding(figure={"unit": "cores"}, order=[[B], [A]])
    assert judge(claimed, {"i": changed}).verdict is FindingVerdict.HOLDS


def test_ratios_with_equal_labels_get_their_point(tmp_path: Path) -> None:
    rates = {(A, 32): NEAR, (B, 32): (2.0, 2.01), (A, 64): NEAR, (B, 64): (4.0, 4.01)}
    judged = judge(finding(order=[[B], [A]]), {"i": rows_of(tmp_path, rates)})
    first, second = (item_.label for item_ in judged.ratios)
    assert first.startswith(f"{B} / {A} (") and second.startswith(f"{B} / {A} (")
    assert "32" in first and "64" in second
    along = judge(finding(falls="burst"), {"i": rows_of(tmp_path / "along", rates)})
    assert all("(" not in item_.label for item_ in along.ratios), "the switch distinguishes them"


def test_labels_have_values_of_campaigns_and_names_once(tmp_path: Path) -> None:
    records = [
        synthetic_record(synthetic_trial(switch=A, rate_pps=rate, io=io), number=number)
        for number, (rate, io) in enumerate(
            [(1_000_000, "raw"), (2_000_000, "raw"), (1_000_000, "udp")]
        )
    ]
    rows = summary(write_run(tmp_path, records))
    (along,) = judge(finding(rises="rate", where={"io": "raw"}), {"i": rows}).ratios
    assert along.label.endswith(", rate 2M / 1M")
    where = {"left": {"io": "raw", "rate": "1M"}, "right": {"io": "udp", "rate": "1M"}}
    (between,) = judge(finding(**where), {"i": rows}).ratios
    upper, lower = between.label.split(" / ")
    assert upper.count("raw") == lower.count("udp") == 1
    chains = [
        synthetic_record(synthetic_trial(switch=A, scenario=f"loopback-{vnfs}"), number=vnfs)
        for vnfs in (1, 2)
    ]
    rows = summary(write_run(tmp_path / "chains", chains))
    (longer,) = judge(finding(falls="scenario"), {"i": rows}).ratios
    assert longer.label.endswith(", scenario loopback-2 / loopback-1")


def test_cores_used_have_an_interval_over_repetitions(tmp_path: Path) -> None:
    trials = [synthetic_trial(switch=A, burst=32).repeated(n) for n in range(3)]
    records = [synthetic_record(trial, number=number) for number, trial in enumerate(trials)]
    (row,) = summary(write_run(tmp_path, records))
    assert row.cpu is not None and len(row.cpu.each_total_cores) == 3
    row = replace(row, cpu=replace(row.cpu, each_total_cores=(1.9, 2.0, 2.1)))
    found = estimate_of(row, Figure(unit="cores"))
    assert found == estimate((1.9, 2.0, 2.1)) and found.low is not None


def block_of(name: str, *settings: str) -> list[Trial]:
    """The trials of one repetition of a built-in campaign."""
    campaign = find_campaign(name, THERE.known, list(settings))
    trials = expand(campaign, THERE.switches, THERE.environments)
    return [trial for trial in trials if trial.repetition == 0]


def test_item_is_scaled_to_its_budget() -> None:
    campaign, block = find_campaign("ara2021-fig4a", THERE.known), block_of("ara2021-fig4a")
    whole = fit(campaign, block, 1e6)
    assert (whole.settings, whole.changes) == ((), FULL)
    slowly = lambda _trial: 2.0  # noqa: E731
    budget_s = len(block) * 8 * (2.0 + 2.0)
    few = block_of("ara2021-fig4a", "rate=1M")
    half = fit(campaign, block, budget_s, slowly, ("rate=1M",), few)
    assert half.settings == ("repetitions=8", "duration=2s"), "blocks decide, not long trials"
    assert half.expected_s == pytest.approx(budget_s)
    more = fit(campaign, block, 1.5 * budget_s, slowly)
    assert more.settings == ("repetitions=12", "duration=2s"), "then more of them"
    most = fit(campaign, block, 3 * budget_s, slowly)
    assert most.settings == ("repetitions=16", "duration=4s"), "and then longer trials"
    little = fit(campaign, block, len(few) * 6 * 2.5, slowly, ("rate=1M",), few)
    assert little.settings == ("rate=1M", "repetitions=6", "duration=500ms")
    assert (
        little.changes.startswith("coarser (rate=1M), 6 repetitions instead of ")
        and little.expected_s <= len(few) * 6 * 2.5
    )
    assert "repetitions=1" in fit(campaign, block, 1.0).settings


def test_usual_time_of_a_method_counts() -> None:
    """R+ at three fractions: a warm-up, nine trials, and one for each fraction; a budget of the
    method bounds them all."""
    (p2p,) = [
        trial
        for trial in block_of("zhang2019-table3")
        if trial.switch == "ovs-dpdk" and trial.scenario == "p2p"
    ]
    nothing = lambda _trial: 0.0  # noqa: E731
    assert block_s([p2p], 2.0, nothing) == pytest.approx(1.0 + 12 * 2.0)
    assert block_s([p2p.model_copy(update={"budget_s": 8.0})], 2.0, nothing) == pytest.approx(8.0)


def test_overhead_includes_start_of_containers() -> None:
    block = block_of("bonafiglia2015-fig5b", "switch=linux-bridge", "packet_size=64")
    item_, *_, eight = sorted(block, key=lambda trial: int(trial.scenario.rpartition("-")[2]))
    usual_s = usual_around_s(item_.model_copy(update={"environment": "netns"}))
    assert (container_s := traits_of("docker").start_s) > 0
    assert usual_around_s(item_) == pytest.approx(usual_s + container_s)
    assert usual_around_s(eight) == pytest.approx(usual_s + 8 * container_s)
    pairs = eight.model_copy(update={"pairs": 3})
    assert usual_around_s(pairs) == pytest.approx(usual_s + 24 * container_s)
    assert usual_around_s(item_.model_copy(update={"scenario": Scenario("v2v")})) == pytest.approx(
        usual_s + 2 * container_s
    )


FIVE = ("ovs-dpdk", "vpp", "snabb", "fastclick", "bess")


@pytest.mark.parametrize("name", ["fig1", "table3"])
def test_r_plus_latency_is_repeated_within_half_an_hour(
    name: str,
) -> None:
    """Five switches, with containers instead of virtual machines."""
    paper = read_paper("zhang2019")
    blocks = {}
    for item in paper.items:
        standing = [setting for item_ in item.stand_in for setting in item_.set]
        blocks[item.name] = [
            trial
            for trial in block_of(item.campaign, *standing, *item.coarse)
            if trial.switch in FIVE
        ]
    cost_s = {latest: block_s(block, shortest_s(block)) for latest, block in blocks.items()}
    item = paper.item(name)
    share_s = 1800 * cost_s[name] / sum(cost_s.values())
    campaign = find_campaign(item.campaign, THERE.known)
    full = [trial for trial in block_of(item.campaign) if trial.switch in FIVE]
    scale = fit(campaign, full, share_s, usual_around_s, item.coarse, blocks[name])
    changed = dict(item_.partition("=")[::2] for item_ in scale.settings)
    assert (
        int(changed.get("repetitions", campaign.repetitions)) >= 3 and scale.expected_s <= share_s
    )


def test_page_shows_findings_items_and_published_values(tmp_path: Path) -> None:
    paper = read_paper("ara2021")
    records = []
    for number, io in enumerate(("udp", "udp-mmsg", "raw", "raw-mmsg")):
        trial = synthetic_trial(switch="linux-bridge", io=io, packet_size_bytes=64)
        records.append(synthetic_record(trial, number=number))
    write_run(folder_of(paper, tmp_path), records, campaign="ara2021-table2")
    page = make_page(paper, THERE, tmp_path, [paper.item("table2"), paper.item("fig4d")])
    text, marked = as_html([page]), as_markdown([page])
    table2, remote = page.items
    assert table2.measured and not remote.measured
    published = sorted(line.published.partition(" (")[0] for line in table2.lines)
    assert published == ["338 kpps", "360 kpps", "409 kpps", "440 kpps"]
    assert "second host" in remote.state.words
    assert (tmp_path / "reproduce" / "ara2021" / "figures" / "table2.png").exists()
    for changed in (text, marked):
        assert "440 kpps" in changed and "Most virtual switches do not achieve higher" in changed
        assert paper.machine in " ".join(changed.split())
        assert "not certified: this machine had no certificate for the port kinds" in changed
    assert "<svg" in text and "http-equiv" in text and "src=" not in text
    assert paper.findings[0].statement in text and "undecided" in text


def test_item_without_run_is_not_measured_yet(tmp_path: Path) -> None:
    paper = read_paper("ara2021")
    burst = paper.item("burst")  # it can run on every machine
    states = {"burst": ItemState(burst, find_campaign(burst.campaign, THERE.known))}
    page = make_page(paper, THERE, tmp_path, [paper.item("table2")], states)
    verdicts = {item_.finding.name: item_ for item_ in page.findings}
    assert verdicts["burst-flat"].verdict is FindingVerdict.NOT_YET
    assert verdicts["burst-flat"].why == "not measured yet: burst"
    assert verdicts["remote-line-rate"].verdict is FindingVerdict.CANNOT


def test_invalid_figures_leave_a_finding_undecided(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {(A, 32): NEAR, (B, 32): NEAR})
    changed = [replace(row, valid=False) for row in rows]
    judged = judge(finding(order=[[B], [A]]), {"i": changed}, ["i"])
    assert judged.verdict is FindingVerdict.UNDECIDED
    assert judged.why == "no figure that it compares is valid: i"


def test_reason_names_missing_item_or_switch(tmp_path: Path) -> None:
    nothing = "nothing that it compares was measured: "
    rows = rows_of(tmp_path, {(A, 32): NEAR, (B, 32): NEAR})
    needed = judge(finding(left={"switch": A}, right={"switch": "t4p4s, vpp"}), {"i": rows})
    assert needed.why == f"{nothing}i with t4p4s or vpp"
    one_of = finding(left={"switch": "t4p4s"}, right={"switch": f"vpp, {A}"})
    assert judge(one_of, {"i": rows}).why == f"{nothing}i with t4p4s"
    ordered = finding(order=[["t4p4s"], [A]])
    assert judge(ordered, {"i": rows}).why == f"{nothing}i with t4p4s"
    across = finding(other_item="j", alike=["burst"], at_least=1)
    assert judge(across, {"i": rows}).why == f"{nothing}j"
    elsewhere = finding(
        where={"switch": A}, other_item="j", other_where={"switch": "vpp"}, at_least=1
    )
    assert judge(elsewhere, {"i": rows, "j": rows}).why == f"{nothing}j with vpp"
    other_size = finding(where={"packet_size": "9000"}, over="burst", power=0)
    assert judge(other_size, {"i": rows}).why == f"{nothing}i with these settings"
    invalid = [replace(row, valid=False) for row in rows]
    judged = judge(across, {"i": rows, "j": invalid})
    assert judged.why == "no figure that it compares is valid: j"


@pytest.mark.parametrize(
    ("share", "verdict"), [(1.0, FindingVerdict.HOLDS), (0.5, FindingVerdict.CONTRADICTED)]
)
def test_load_is_compared_with_the_set_rate(
    tmp_path: Path, share: float, verdict: FindingVerdict
) -> None:
    set_pps = 1e6
    rows = rows_of(tmp_path, {(A, 32): [set_pps * share * near for near in NEAR]})
    changed = [
        replace(row, trial=row.trial.model_copy(update={"rate_pps": set_pps, "pairs": 1}))
        for row in rows
    ]
    claimed = finding(of_set_rate=True, at_least=0.95, at_most=1.01)
    judged = judge(claimed, {"i": changed})
    assert judged.verdict is verdict and f"{A}, of 1 Mpps" in judged.why
    fastest = [replace(row, trial=row.trial.model_copy(update={"rate_pps": None})) for row in rows]
    assert judge(claimed, {"i": fastest}).ratios == ()


def test_figures_of_guests_judge_no_finding(tmp_path: Path) -> None:
    paper = read_paper("bonafiglia2015")
    item = paper.item("fig6")
    trial = synthetic_trial(
        switch="ovs-netdev", scenario="chains-2x1", split="src-mac", packet_size_bytes=64
    )
    record = synthetic_record(trial, marks=["software-emulated"])
    write_run(folder_of(paper, tmp_path) / GUESTS, [record], campaign=item.campaign)
    page = make_page(paper, THERE, tmp_path, [item])
    (shown,) = page.items
    assert not shown.measured and shown.word == "shown in an emulated guest"
    assert [line.marks for line in shown.guests] == ["NOT VALID: software-emulated"]
    assert {item_.verdict for item_ in page.findings} <= {
        FindingVerdict.NOT_YET, FindingVerdict.CANNOT
    }, "this machine has no figure"  # fmt: skip
    for changed in (as_html([page]), as_markdown([page])):
        assert "emulated guest" in changed and "NOT VALID: software-emulated" in changed


@pytest.mark.parametrize(
    ("paper_name", "name", "measured", "texts"),
    [
        ("zhang2019", "fig4a", {"packet_size_bytes": 64}, ["bess, ", "snabb, ", "(not here)"]),
        ("dagar2017", "table5", {"cpu_limit": 1.0, "packet_size_bytes": 64},
         ["published, not here"]),
    ],
)  # fmt: skip
def test_published_values_without_measurement_are_drawn(
    tmp_path: Path, paper_name: str, name: str, measured: dict[str, object], texts: list[str]
) -> None:
    paper = read_paper(paper_name)
    item = paper.item(name)
    campaign = find_campaign(item.campaign, THERE.known)
    trials = expand(campaign, THERE.switches, THERE.environments)
    records = [
        synthetic_record(trial, marks=[])
        for trial in trials
        if trial.repetition == 0 and trial.switch == "ovs-dpdk"
        if all(getattr(trial, field) == value for field, value in measured.items())
    ]
    write_run(folder_of(paper, tmp_path), records, campaign=item.campaign)
    (shown,) = make_page(paper, THERE, tmp_path, [item]).items
    assert shown.svg is not None
    for text in texts:
        assert text in shown.svg, text


def test_times_at_all_loads_are_bars_with_published_values(tmp_path: Path) -> None:
    paper = read_paper("zhang2019")
    item = paper.item("table3")
    campaign = find_campaign(item.campaign, THERE.known)
    found = run_simulated("r-plus", Behaviour(capacity_pps=1e6), fractions="0.1+0.5+0.99")
    records = [
        synthetic_record(trial, marks=[], throughput=None, trim=None, method=found)
        for trial in expand(campaign, THERE.switches, THERE.environments)
        if trial.repetition == 0 and trial.switch == "ovs-dpdk" and trial.scenario == "p2p"
    ]
    write_run(folder_of(paper, tmp_path), records, campaign=item.campaign)
    (shown,) = make_page(paper, THERE, tmp_path, [item]).items
    assert shown.svg is not None
    for load in ("0.1", "0.5", "0.99"):
        assert f"{load} R+</text>" in shown.svg, load
    published = {
        line.published
        for line in shown.lines
        if line.contender == "ovs-dpdk" and line.measured not in ("", "not measured here")
    }
    assert published == {"4.3 µs", "5.2 µs", "9.6 µs"}


def test_times_are_drawn_as_cumulative_distribution(tmp_path: Path) -> None:
    paper = read_paper("dagar2017")
    item = paper.item("table4")
    campaign = find_campaign(item.campaign, THERE.known)
    trials = expand(campaign, THERE.switches, THERE.environments)
    found = run_simulated("one-way", Behaviour(capacity_pps=1e6), rate_pps=100_000)
    records = [
        synthetic_record(trial, marks=[], throughput=None, trim=None, method=found)
        for trial in trials
        if trial.repetition == 0
    ]
    write_run(folder_of(paper, tmp_path), records, campaign=item.campaign)
    (shown,) = make_page(paper, THERE, tmp_path, [item]).items
    assert shown.svg is not None and "share of frames (%)" in shown.svg
    for name in {trial.switch for trial in trials}:
        assert name in shown.svg
    (p45,) = [line for line in shown.lines if line.figure.startswith("p45 ")]
    assert p45.measured == "not taken here", "the switch was measured"


def test_reproduce_refuses_unknown_paper_and_item(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert switchmark(["reproduce", "ara2020"]) == 2
    assert "unknown paper 'ara2020'; did you mean ara2021?" in capsys.readouterr().err
    assert switchmark(["reproduce", "dagar2017", "tabel5"]) == 2
    assert "unknown item 'tabel5'; did you mean table5?" in capsys.readouterr().err
    assert switchmark(["reproduce", "dagar2017", "--budget", "soon"]) == 2
    assert "--budget: 'soon' is not a number" in capsys.readouterr().err
    with pytest.raises(UsageError, match="unknown item"):
        read_paper("dagar2017").item("table99")


def test_list_shows_items_and_their_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert switchmark(["reproduce", "dagar2017", "table5", "fig17", "--list"]) == 0
    out = capsys.readouterr().out
    assert "table5" in out and "Throughput with increasingly limited CPU access" in out
    assert "not as in the paper, in fig17: the text does not have the settings of" in out


def test_verdict_names_substitutes(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {(A, 32): NEAR, (B, 32): (2.0, 2.01, 1.99)})
    standing = {"i": StandIns(("one core in the place of two",), {A: "A for C", "vpp": "for D"})}
    judged = judge(finding(order=[[B], [A]]), {"i": rows}, (), standing)
    assert judged.verdict is FindingVerdict.HOLDS
    assert judged.why.endswith(f"; with one core in the place of two, A for C, {SHARED}")
    apart = [replace(row, oversubscribed=False) for row in rows]
    assert SHARED not in judge(finding(order=[[B], [A]]), {"i": apart}).why


@pytest.mark.parametrize(
    ("stand_in", "notes", "verdict"),
    [
        ("none", (), FindingVerdict.HOLDS),
        ("none", ("one core",), FindingVerdict.CANNOT),
        ("only", ("one core",), FindingVerdict.HOLDS),
        ("only", (), FindingVerdict.CANNOT),
    ],
)
def test_claim_is_not_judged_by_wrong_substitutes(
    tmp_path: Path, stand_in: str, notes: tuple[str, ...], verdict: FindingVerdict
) -> None:
    rows = rows_of(tmp_path, {(A, 32): NEAR, (B, 32): (2.0, 2.01, 1.99)})
    claimed = finding(order=[[B], [A]], stand_in=stand_in)
    judged = judge(claimed, {"i": rows}, (), {"i": StandIns(notes)})
    assert judged.verdict is verdict
    assert verdict is FindingVerdict.HOLDS or judged.why.startswith("not judged here: i ")


@pytest.mark.parametrize(
    ("cores", "shared", "verdict"),
    [
        ("enough", False, FindingVerdict.HOLDS),
        ("enough", True, FindingVerdict.CANNOT),
        ("lacking", True, FindingVerdict.HOLDS),
        ("lacking", False, FindingVerdict.CANNOT),
    ],
)
def test_claim_about_cores_needs_enough_or_too_few(
    tmp_path: Path, cores: str, shared: bool, verdict: FindingVerdict
) -> None:
    rows = rows_of(tmp_path, {(A, 32): NEAR, (B, 32): (2.0, 2.01, 1.99)})
    latest = {"i": [replace(row, oversubscribed=shared) for row in rows]}
    judged = judge(finding(order=[[B], [A]], cores=cores), latest)
    assert judged.verdict is verdict
    have = "share cores" if shared else "have a core each"
    holds = verdict is FindingVerdict.HOLDS
    assert holds or judged.why == f"not judged here: in i the applications {have}"


def test_rise_has_its_lower_bound(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {(A, 32): NEAR, (A, 64): (1.3, 1.301, 1.299)})
    for bound, verdict in ((1.1, FindingVerdict.HOLDS), (1.5, FindingVerdict.CONTRADICTED)):
        assert judge(finding(rises="burst", at_least=bound), {"i": rows}).verdict is verdict
    falls = {"falls": "burst", "at_most": 0.9}
    assert judge(finding(**falls), {"i": rows}).verdict is FindingVerdict.CONTRADICTED


def test_substitutes_are_read_from_the_settings_of_a_run(tmp_path: Path) -> None:
    paper = read_paper("dagar2017")
    item = paper.item("fig14")
    campaign = find_campaign(item.campaign, THERE.known)
    trials = expand(campaign, THERE.switches, THERE.environments)
    records = [synthetic_record(trial) for trial in trials[:2]]
    write_run(folder_of(paper, tmp_path), records, campaign=item.campaign)
    measured = read_measured(paper, tmp_path)
    assert standing_by_item([item], measured)["fig14"].notes == ()
    settings = tuple(setting for item_ in item.stand_in for setting in item_.set)
    (latest,) = measured.values()
    run = Run(
        latest.run.directory, latest.run.info.model_copy(update={"settings": {"set": settings}})
    )
    changed = standing_by_item([item], {item.campaign: replace(latest, run=run)})
    assert changed["fig14"].notes == changed["dagar2017-fig14"].notes == (item.stand_in[0].note,)


THREE = ("ovs-dpdk", "basicfwd", "ovs-netdev")


def spread(value: float) -> tuple[float, ...]:
    """Three repetitions that are close to this value."""
    return tuple(value * item_ for item_ in NEAR)


@pytest.mark.parametrize(
    ("cores", "bounds", "verdict"),
    [
        ((3, 2, 1), {"at_most": 0}, FindingVerdict.HOLDS),
        ((1, 2, 3), {"at_most": 0}, FindingVerdict.CONTRADICTED),
        ((1, 2, 3), {"at_least": -0.5, "at_most": 0.5}, FindingVerdict.CONTRADICTED),
        ((2, 1, 3), {"at_least": -0.5, "at_most": 0.5}, FindingVerdict.HOLDS),
        ((1, 1, 1), {"at_most": 0}, FindingVerdict.UNDECIDED),
    ],
)
def test_correlation_of_two_figures_over_switches(
    tmp_path: Path, cores: Sequence[float], bounds: dict[str, float], verdict: FindingVerdict
) -> None:
    rows = rows_of(tmp_path, {(item_, 32): spread(n) for n, item_ in enumerate(THREE, 1)})
    used = dict(zip(THREE, cores, strict=True))
    changed = [
        replace(row, cpu=replace(row.cpu, each_total_cores=spread(used[row.trial.switch])))
        for row in rows
        if row.cpu is not None
    ]
    judged = judge(finding(correlated={"unit": "cores"}, **bounds), {"i": changed})
    assert judged.verdict is verdict, judged.why
    assert judged.ratios[0].label == "rank correlation of mean load and CPU used over 3 switches"
    assert judge(finding(correlated={"unit": "cores"}), {"i": changed[:2]}).ratios == ()


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ((1, 2), (2, 1), FindingVerdict.HOLDS),
        ((1, 2), (1, 2), FindingVerdict.CONTRADICTED),
        ((1, 2), (1, 1), FindingVerdict.UNDECIDED),
    ],
)
def test_beaten_in_needs_a_rival_for_each_switch(
    tmp_path: Path,
    first: tuple[float, float],
    second: tuple[float, float],
    verdict: FindingVerdict,
) -> None:
    rows = {
        item: rows_of(tmp_path / item, {(A, 32): spread(a), (B, 32): spread(b)})
        for item, (a, b) in (("i", first), ("j", second))
    }
    claimed = finding(beaten_in=[{"item": "j"}])
    judged = judge(claimed, rows)
    assert judged.verdict is verdict, judged.why
    alone = judge(claimed, {"i": rows["i"]})
    assert alone.verdict is FindingVerdict.UNDECIDED, "the other place was not measured"


def test_deviation_is_compared_by_distances_from_median(tmp_path: Path) -> None:
    steady = tuple(1e6 * (1 + n / 1000) for n in (-3, -2, -1, 0, 1, 2, 3))
    wide = tuple(1e6 * (1 + n / 10) for n in (-3, -2, -1, 0, 1, 2, 3))
    rows = rows_of(tmp_path, {(A, 32): steady, (B, 32): wide})
    claim = {"figure": {"statistic": "stdev"}, "left": {"switch": B}, "right": {"switch": A}}
    judged = judge(finding(**claim, at_least=1), {"i": rows})
    assert judged.verdict is FindingVerdict.HOLDS
    assert judged.ratios[0].value == pytest.approx(100)
