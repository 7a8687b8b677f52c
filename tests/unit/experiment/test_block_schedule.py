"""The block schedule of a campaign that proves: blocks, dropping out, the end, resuming."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from switchmark.errors import UsageError
from switchmark.experiment.block_schedule import GIVEN_UP_AFTER, _Point
from switchmark.model.trial import Trial
from switchmark.record.metric import method_metric
from switchmark.report.answer_words import by_contender, by_point
from switchmark.results.answer import Lead, LeadRatio, LeadVerdict, PointAnswer, answer
from switchmark.results.blocks import WITHOUT_RATIO, Observed, as_block_trials, observe
from switchmark.results.proving import Proving
from switchmark.statistics.boundaries import FIRST_ANALYSIS
from switchmark.statistics.sequential import analyse
from switchmark.statistics.states import State
from switchmark.switch.registry import usual_overhead_s
from tests.unit.block_fakes import BEGIN, OVERHEAD_S, Killed, Machine, campaign, run_all, steps_of
from tests.unit.records import synthetic_trial

TRIAL_S = 0.5 + OVERHEAD_S
THREE = "switch: [linux-bridge, basicfwd, ovs-dpdk]\npacket_size: 64\nbudget: 2m"


def answers(machine: Machine, text: str = THREE) -> list[PointAnswer]:
    observed = [observe(item, machine.resumed) for item in machine.records.values()]
    return answer(observed, Proving.of(campaign(text).model_dump(), usual_overhead_s), {})


def verdicts(found: PointAnswer) -> dict[tuple[str, str], LeadVerdict]:
    return {(item.ahead, item.behind): item.verdict for item in found.leads}


def measure_blocks(machine: Machine, text: str, blocks: int) -> None:
    """Measure this number of blocks of all switches of the campaign."""
    for repetition in range(blocks):
        for sweep in campaign(text).sweeps:
            for switch in sweep.switch:
                machine.measure(_trial(text, switch, repetition))


def test_clear_leads_end_campaign_at_first_analysis() -> None:
    machine = Machine({"linux-bridge": 0.4e6, "basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    run_all(machine, campaign(THREE))
    assert len(machine.order) == 3 * FIRST_ANALYSIS
    (found,) = answers(machine)
    assert [item.contender for item in found.ranking] == ["basicfwd", "ovs-dpdk", "linux-bridge"]
    assert set(verdicts(found).values()) == {LeadVerdict.AHEAD}
    lead = found.between("ovs-dpdk", "basicfwd")
    assert lead is not None and lead.ahead == "basicfwd"
    assert 1.5 < lead.ratios[0].low < 2.0 < lead.ratios[0].high
    assert lead.further_s is None


def test_block_has_each_contender_once_in_random_order() -> None:
    machine = Machine({"linux-bridge": 0.4e6, "basicfwd": 12e6, "ovs-dpdk": 6e6})
    run_all(machine, campaign(THREE))
    blocks = [machine.order[k : k + 3] for k in range(0, 3 * FIRST_ANALYSIS, 3)]
    assert [{number for number, _ in block} for block in blocks] == [
        {k} for k in range(FIRST_ANALYSIS)
    ]
    assert all(len({switch for _, switch in block}) == 3 for block in blocks)
    assert len({tuple(switch for _, switch in block) for block in blocks}) > 1


def test_decided_contender_drops_out() -> None:
    machine = Machine({"linux-bridge": 0.4e6, "basicfwd": 10.2e6, "ovs-dpdk": 10e6}, sd=0.05)
    run_all(machine, campaign(THREE))
    measured = [number for number, switch in machine.order if switch == "linux-bridge"]
    longest = [number for number, switch in machine.order if switch == "basicfwd"]
    assert len(measured) < len(longest)
    assert measured == list(range(len(measured))), "it is in every block before"
    (found,) = answers(machine)
    lead = found.between("basicfwd", "linux-bridge")
    assert lead is not None and lead.verdict is LeadVerdict.AHEAD, "a decision is final"


def test_undecided_campaign_ends_with_its_budget() -> None:
    machine = Machine({"basicfwd": 10.6e6, "ovs-dpdk": 10e6}, sd=0.2)
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nbudget: 40s"
    course = run_all(machine, campaign(text))
    assert 40 - 2 * TRIAL_S - 1 < machine.now_s <= 40
    assert 0 <= course.left_s < 2 * TRIAL_S + 1
    (found,) = answers(machine, text)
    (lead,) = found.leads
    assert lead.verdict is LeadVerdict.UNDECIDED
    assert lead.further_s is not None and lead.further_s > 0


def test_equal_contenders_are_the_same_within_prove() -> None:
    machine = Machine({"basicfwd": 10e6, "ovs-dpdk": 10e6}, sd=0.02, dwell_s=1e9)
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nprove: 5%\nbudget: 3m"
    run_all(machine, campaign(text))
    (found,) = answers(machine, text)
    (lead,) = found.leads
    assert lead.verdict is LeadVerdict.SAME
    assert machine.now_s < 120, "it ended before its budget"


def test_trials_with_a_changed_state_count() -> None:
    machine = Machine({"linux-bridge": 0.4e6, "basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=4.0)
    run_all(machine, campaign(THREE))
    (found,) = answers(machine)
    assert found.lines is not None
    assert (found.lines.fast_ns, found.lines.slow_ns) == pytest.approx((30.0, 150.0))
    states = [trial.state for item in found.ranking for trial in item.measured]
    assert set(states) == {State.FAST, State.SLOW, State.CHANGED}
    assert not found.left_out
    pairs = max(lead.pairs for lead in found.leads)
    assert pairs == found.blocks, "every block gives pairs"
    assert set(verdicts(found).values()) == {LeadVerdict.AHEAD}


def test_points_alternate_and_end_separately() -> None:
    rates = {"basicfwd": 12e6, "ovs-dpdk": 6e6}
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64, 1500\nbudget: 2m"
    machine = Machine(rates, dwell_s=1e9)
    run_all(machine, campaign(text))
    sizes = [item.trial.packet_size_bytes for item in machine.records.values()]
    assert len(sizes) == 4 * FIRST_ANALYSIS
    assert all(sizes[k] == sizes[k + 1] for k in range(0, len(sizes), 2)), (
        "a block belongs to one test point"
    )
    assert len(answers(machine, text)) == 2


def test_contender_that_always_fails_is_given_up() -> None:
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, fails=("linux-bridge",), dwell_s=1e9)
    run_all(machine, campaign(THREE))
    failed = [item for item in machine.order if item[1] == "linux-bridge"]
    assert len(failed) == GIVEN_UP_AFTER
    (found,) = answers(machine)
    assert verdicts(found) == {("basicfwd", "ovs-dpdk"): LeadVerdict.AHEAD}
    assert found.left_out == {"failed": GIVEN_UP_AFTER}
    assert asdict(found)["left_out"] == {"failed": GIVEN_UP_AFTER}, "JSON output uses asdict"


def test_contenders_with_lower_bounds_alone_are_given_up() -> None:
    """No number of blocks would decide a comparison of them."""
    proving = Proving.of(campaign(THREE).model_dump(), usual_overhead_s)
    trials = [synthetic_trial(switch=name) for name in ("basicfwd", "ovs-dpdk")]
    point = _Point({trial.id: trial for trial in trials}, proving)
    figures = {method_metric("NDR at least", "pps"): 1e6}
    for block in range(GIVEN_UP_AFTER):
        assert point.needed(block) == set(point.trials)
        point.take(
            [Observed(trial, block, 0, 0.0, 1.0, figures=figures) for trial in trials], block + 1
        )
    assert point.needed(GIVEN_UP_AFTER) == set()


@pytest.mark.parametrize("killed_after", [1, 7, 25, 40])
def test_killed_campaign_continues_at_the_same_trial(killed_after: int) -> None:
    rates = {"linux-bridge": 0.4e6, "basicfwd": 10.3e6, "ovs-dpdk": 10e6}
    whole = Machine(rates, dwell_s=1e9)
    run_all(whole, campaign(THREE))
    machine = Machine(rates, dwell_s=1e9, killed_after=killed_after)
    with pytest.raises(Killed):
        run_all(machine, campaign(THREE))
    machine.killed_after = None
    machine.resumed.append(BEGIN + timedelta(seconds=machine.now_s + 1800))
    machine.now_s += 3600
    run_all(machine, campaign(THREE))
    common = min(len(whole.order), len(machine.order))
    assert machine.order[: killed_after + 3] == whole.order[: killed_after + 3]
    assert len(machine.order) == len(set(machine.order)), "nothing is measured twice"
    assert common >= 3 * FIRST_ANALYSIS
    spent_s = len(machine.order) * TRIAL_S
    assert spent_s <= 120, "the pause does not count"


def test_failed_trials_run_again_after_resume() -> None:
    """Earlier, this was only the case in campaigns that do not prove."""
    rates = {"linux-bridge": 0.4e6, "basicfwd": 12e6, "ovs-dpdk": 6e6}
    machine = Machine(rates, fails=("linux-bridge",), dwell_s=1e9)
    run_all(machine, campaign(THREE))
    failed = {trial for trial, state in machine.statuses().items() if state == "failed"}
    assert len(failed) == GIVEN_UP_AFTER
    machine.fails, machine.order = (), []
    machine.resumed.append(BEGIN + timedelta(seconds=machine.now_s + 1))
    machine.now_s += 10
    run_all(machine, campaign(THREE))
    again = [number for number, switch in machine.order if switch == "linux-bridge"]
    assert again[:GIVEN_UP_AFTER] == list(range(GIVEN_UP_AFTER))
    assert "failed" not in machine.statuses().values()


def test_spent_budget_differs_from_decision() -> None:
    """A resumed run that measures nothing then names the reason."""
    rates = {"basicfwd": 10.6e6, "ovs-dpdk": 10e6}
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nbudget: 40s"
    machine = Machine(rates, sd=0.2)
    assert run_all(machine, campaign(text)).is_out_of_time
    count = len(machine.order)
    machine.resumed.append(BEGIN + timedelta(seconds=machine.now_s + 1))
    machine.now_s += 10
    assert run_all(machine, campaign(text)).is_out_of_time
    assert len(machine.order) == count
    decided = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    assert not run_all(decided, campaign(text.replace("40s", "2m"))).is_out_of_time


def test_pairs_are_not_made_across_an_interruption() -> None:
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9, killed_after=13)
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nbudget: 2m"
    with pytest.raises(Killed):
        run_all(machine, campaign(text))
    machine.killed_after = None
    machine.resumed.append(BEGIN + timedelta(seconds=machine.now_s + 1))
    machine.now_s += 10
    run_all(machine, campaign(text))
    (found,) = answers(machine, text)
    (lead,) = found.leads
    assert lead.pairs == found.blocks - 1


def test_fixed_number_of_blocks_proves_a_lead() -> None:
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nrepetitions: 10"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    measure_blocks(machine, text, 10)
    (found,) = answers(machine, text)
    assert verdicts(found) == {("basicfwd", "ovs-dpdk"): LeadVerdict.AHEAD}


def test_proven_lead_precedes_typical_figures() -> None:
    """One contender was measured only while the machine was slow. Its typical figure is therefore
    lower, but within blocks it is ahead."""
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nrepetitions: 30"
    slow_from, switches = 18, ("basicfwd", "ovs-dpdk")

    class Turning(Machine):
        def is_slow(self, at_s: float) -> bool:
            return at_s >= slow_from * len(switches) * TRIAL_S - 0.01

    machine = Turning({"basicfwd": 7.5e6, "ovs-dpdk": 6e6})
    for repetition in range(30):
        for switch in switches[repetition < slow_from :]:
            machine.measure(_trial(text, switch, repetition))
        machine.now_s = (repetition + 1) * len(switches) * TRIAL_S
    (found,) = answers(machine, text)
    first, second = found.ranking
    assert (first.contender, second.contender) == switches
    assert first.typical < second.typical
    assert verdicts(found) == {switches: LeadVerdict.AHEAD}
    assert by_point(found, [found]).endswith(
        "basicfwd 3.75 Mpps; ahead of ovs-dpdk 1.23x while slow"
    )
    lead = by_contender(found, [found]).lines[1].lead
    assert lead.startswith("basicfwd is ahead block by block, 1.23x (")


def test_leads_are_relative_to_the_best_contender() -> None:
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nrepetitions: 9"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    measure_blocks(machine, text, 9)
    (found,) = answers(machine, text)
    fast = LeadRatio(1.5, 1.25, 2.0, 9, LeadVerdict.AHEAD, State.FAST)
    slow = LeadRatio(1.0, 0.98, 1.02, 9, LeadVerdict.SAME, State.SLOW)
    lead = Lead("ovs-dpdk", "basicfwd", LeadVerdict.DEPENDS, (fast, slow), 9, None)
    found = replace(found, leads=(lead,))
    first, second = by_contender(found, [found]).lines
    assert (first.contender, first.lead) == ("basicfwd", "")
    ratios = "ovs-dpdk 1.50x (1.25 to 2.00) while fast, no lead of 5 % or more while slow"
    assert second.lead == f"depends on the state of the machine: {ratios}"
    assert by_point(found, [found]).endswith(f"; depends on the state of the machine: {ratios}")
    unclear = replace(fast, low=0.5, verdict=LeadVerdict.UNDECIDED, state=None)
    lead = replace(lead, verdict=LeadVerdict.UNDECIDED, ratios=(unclear,), further_s=60.0)
    found = replace(found, leads=(lead,))
    assert by_contender(found, [found]).lines[1].lead == (
        "undecided (ratio between 0.50 and 2.00); about 1 min of further trials of this pair "
        "would decide"
    )


@pytest.mark.parametrize(
    ("keys", "blocks"),
    [("until_ci: 2%", 12), ("repetitions: 5\nuntil_ci: 2%", 9), ("repetitions: 5", 9)],
)
def test_all_blocks_count_in_campaign_without_budget(keys: str, blocks: int) -> None:
    """The campaign ends by `until_ci`, or a later command added blocks."""
    text = f"switch: [basicfwd, ovs-dpdk]\npacket_size: 64\n{keys}"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    measure_blocks(machine, text, blocks)
    (found,) = answers(machine, text)
    (lead,) = found.leads
    assert (lead.verdict, lead.pairs) == (LeadVerdict.AHEAD, blocks)
    assert lead.ratios[0].low < 2 < lead.ratios[0].high < 3


def test_interval_has_the_level_of_the_last_analysis() -> None:
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nbudget: 2m"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    run_all(machine, campaign(text))
    (found,) = answers(machine, text)
    (lead,) = found.leads
    proving = Proving.of(campaign(text).model_dump(), usual_overhead_s)
    trials = [step.plan.trial for step in steps_of(campaign(text))]
    rule = proving.rule(trials, proving.round_s(trials))
    observed = [observe(item) for item in machine.records.values()]
    blocks = as_block_trials(observed, found.metric)
    ((at_it,), (at_the_end,)) = (
        [decision.ratio for decision in item.decisions]
        for spends_all in (False, True)
        for item in analyse(blocks, rule, found.blocks, is_last=spends_all)
    )
    widths = [math.log(item.high / item.low) for item in (lead.ratios[0], at_it, at_the_end)]
    assert found.blocks == FIRST_ANALYSIS
    assert widths[0] == pytest.approx(widths[1]) and widths[1] > 1.1 * widths[2]


def test_contender_with_figure_0_is_left_out() -> None:
    text = "switch: [basicfwd, ovs-dpdk, linux-bridge]\npacket_size: 64\nrepetitions: 5"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6, "linux-bridge": 0.0}, dwell_s=1e9)
    measure_blocks(machine, text, 5)
    (found,) = answers(machine, text)
    assert found.left_out == {WITHOUT_RATIO: 5}


def _trial(text: str, switch: str, repetition: int) -> Trial:
    steps = [item for item in steps_of(campaign(text)) if item.plan.trial.switch == switch]
    return steps[0].plan.trial.repeated(repetition)


def test_campaign_with_repetitions_does_not_prove() -> None:
    fixed = campaign(f"{THREE}\nrepetitions: 2")
    assert not fixed.proves
    assert fixed.repetitions == 2
    assert campaign(THREE).proves
    assert campaign("switch: [basicfwd, ovs-dpdk]\nprove: 5%").budget_s == 600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "prove: 5%\nuntil_ci: 2%",
            "until_ci: is another rule for the end of a campaign than prove",
        ),
        ("budget: 900ms", "budget: 900ms ends within the first block, whose trials measure 1 s"),
        ("confidence: 40%\nprove: 5%", "confidence must be above 50% and below 100%, not 40%"),
        ("prove: 0%", "must be above 0 %"),
    ],
)
def test_impossible_rules_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        campaign(f"switch: [basicfwd, ovs-dpdk]\npacket_size: 64\n{text}")


def test_contenders_on_different_cores_have_states() -> None:
    """Lines between other cores have other times, but the same states."""
    elsewhere = {"ovs-dpdk": [0, 2, 3], "linux-bridge": [1, 0]}
    rates = {"linux-bridge": 0.4e6, "basicfwd": 12e6, "ovs-dpdk": 11e6}
    machine = Machine(rates, cores=elsewhere)
    run_all(machine, campaign(THREE))
    (found,) = answers(machine)
    assert found.lines is not None
    lead = found.between("basicfwd", "ovs-dpdk")
    assert lead is not None and lead.verdict is LeadVerdict.AHEAD
    assert all(item.low < 12 / 11 < item.high for item in lead.ratios)
    assert all(item.high / item.low < 1.2 for item in lead.ratios)


def test_analyses_depend_on_the_size_of_the_campaign() -> None:
    """A larger campaign expects fewer blocks in its budget, so the first analysis may spend more of
    the level."""
    proving = Proving.of(campaign(THREE).model_dump(), usual_overhead_s)
    trials = [step.plan.trial for step in steps_of(campaign(THREE))]
    alone = proving.rule(trials, proving.round_s(trials))
    shared = proving.rule(trials, 4 * proving.round_s(trials))
    assert alone.expected == round(
        120 / sum(0.5 + usual_overhead_s(item.switch) for item in trials)
    )
    assert shared.expected == round(alone.expected / 4)
    assert alone.analyses == shared.analyses
    assert alone.analyses[-1] * 2 * (0.5 + 0.2) <= 125, "two contenders fill the time"
    assert shared.level_at(FIRST_ANALYSIS) > 2 * alone.level_at(FIRST_ANALYSIS)
