"""A campaign that proves: blocks, when contenders drop out, when it ends, and going on."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from switchmark.errors import UsageError
from switchmark.experiment.block_schedule import GIVEN_UP_AFTER
from switchmark.model.trial import Trial
from switchmark.report.answer_words import by_contender, by_point
from switchmark.results.answer import Lead, LeadRatio, LeadVerdict, PointAnswer, answer
from switchmark.results.blocks import WITHOUT_RATIO, as_block_trials, observe
from switchmark.results.proving import Proving
from switchmark.statistics.boundaries import FIRST_LOOK
from switchmark.statistics.sequential import look
from switchmark.statistics.states import State
from switchmark.switch.registry import usual_overhead_s
from tests.unit.block_fakes import BEGIN, OVERHEAD_S, Killed, Machine, campaign, run_all, steps_of

TRIAL_S = 0.5 + OVERHEAD_S
THREE = "switch: [linux-bridge, basicfwd, ovs-dpdk]\npacket_size: 64\nbudget: 2m"


def answers(machine: Machine, text: str = THREE) -> list[PointAnswer]:
    observed = [observe(one, machine.resumed) for one in machine.records.values()]
    return answer(observed, Proving.of(campaign(text).model_dump(), usual_overhead_s), {})


def verdicts(found: PointAnswer) -> dict[tuple[str, str], LeadVerdict]:
    return {(one.ahead, one.behind): one.verdict for one in found.leads}


def measure_blocks(machine: Machine, text: str, blocks: int) -> None:
    """Measure so many blocks of all switches of the campaign, whatever they prove."""
    for repetition in range(blocks):
        for sweep in campaign(text).sweeps:
            for switch in sweep.switch:
                machine.measure(_trial(text, switch, repetition))


def test_clear_leads_are_proven_at_the_first_look_and_the_campaign_ends() -> None:
    machine = Machine({"linux-bridge": 0.4e6, "basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    run_all(machine, campaign(THREE))
    assert len(machine.order) == 3 * FIRST_LOOK
    (found,) = answers(machine)
    assert [one.contender for one in found.ranking] == ["basicfwd", "ovs-dpdk", "linux-bridge"]
    assert set(verdicts(found).values()) == {LeadVerdict.AHEAD}
    lead = found.between("ovs-dpdk", "basicfwd")
    assert lead is not None and lead.ahead == "basicfwd"
    assert 1.5 < lead.ratios[0].low < 2.0 < lead.ratios[0].high
    assert lead.further_s is None


def test_every_block_holds_each_contender_once_in_random_order() -> None:
    machine = Machine({"linux-bridge": 0.4e6, "basicfwd": 12e6, "ovs-dpdk": 6e6})
    run_all(machine, campaign(THREE))
    blocks = [machine.order[k : k + 3] for k in range(0, 3 * FIRST_LOOK, 3)]
    assert [{number for number, _ in block} for block in blocks] == [{k} for k in range(FIRST_LOOK)]
    assert all(len({switch for _, switch in block}) == 3 for block in blocks)
    assert len({tuple(switch for _, switch in block) for block in blocks}) > 1


def test_a_decided_contender_drops_out_and_its_time_goes_to_the_others() -> None:
    machine = Machine({"linux-bridge": 0.4e6, "basicfwd": 10.2e6, "ovs-dpdk": 10e6}, sd=0.05)
    run_all(machine, campaign(THREE))
    measured = [number for number, switch in machine.order if switch == "linux-bridge"]
    longest = [number for number, switch in machine.order if switch == "basicfwd"]
    assert len(measured) < len(longest)
    assert measured == list(range(len(measured))), "no block is left out before"
    (found,) = answers(machine)
    lead = found.between("basicfwd", "linux-bridge")
    assert lead is not None and lead.verdict is LeadVerdict.AHEAD, "once decided, always decided"


def test_the_budget_is_kept_and_the_undecided_say_what_they_would_take() -> None:
    machine = Machine({"basicfwd": 10.6e6, "ovs-dpdk": 10e6}, sd=0.2)
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nbudget: 40s"
    course = run_all(machine, campaign(text))
    assert 40 - 2 * TRIAL_S - 1 < machine.now_s <= 40
    assert 0 <= course.left_s < 2 * TRIAL_S + 1
    (found,) = answers(machine, text)
    (lead,) = found.leads
    assert lead.verdict is LeadVerdict.UNDECIDED
    assert lead.further_s is not None and lead.further_s > 0


def test_two_alike_are_the_same_within_the_smallest_lead_worth_knowing() -> None:
    machine = Machine({"basicfwd": 10e6, "ovs-dpdk": 10e6}, sd=0.02, dwell_s=1e9)
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nprove: 5%\nbudget: 3m"
    run_all(machine, campaign(text))
    (found,) = answers(machine, text)
    (lead,) = found.leads
    assert lead.verdict is LeadVerdict.SAME
    assert machine.now_s < 120, "it ended before its time"


def test_states_are_told_apart_and_trials_in_which_they_changed_count_with_one_of_them() -> None:
    machine = Machine({"linux-bridge": 0.4e6, "basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=4.0)
    run_all(machine, campaign(THREE))
    (found,) = answers(machine)
    assert found.lines is not None
    assert (found.lines.near_ns, found.lines.far_ns) == pytest.approx((30.0, 150.0))
    states = [trial.state for one in found.ranking for trial in one.measured]
    assert set(states) == {State.NEAR, State.FAR, State.CHANGED}
    assert not found.left_out
    pairs = max(lead.pairs for lead in found.leads)
    assert pairs == found.blocks, "every block tells something"
    assert set(verdicts(found).values()) == {LeadVerdict.AHEAD}


def test_points_take_turns_and_end_by_themselves() -> None:
    rates = {"basicfwd": 12e6, "ovs-dpdk": 6e6}
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64, 1500\nbudget: 2m"
    machine = Machine(rates, dwell_s=1e9)
    run_all(machine, campaign(text))
    sizes = [one.trial.packet_size_bytes for one in machine.records.values()]
    assert len(sizes) == 4 * FIRST_LOOK
    assert all(sizes[k] == sizes[k + 1] for k in range(0, len(sizes), 2)), "a block is of a point"
    assert len(answers(machine, text)) == 2


def test_a_contender_that_always_fails_is_given_up() -> None:
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, fails=("linux-bridge",), dwell_s=1e9)
    run_all(machine, campaign(THREE))
    failed = [one for one in machine.order if one[1] == "linux-bridge"]
    assert len(failed) == GIVEN_UP_AFTER
    (found,) = answers(machine)
    assert verdicts(found) == {("basicfwd", "ovs-dpdk"): LeadVerdict.AHEAD}
    assert found.left_out == {"failed": GIVEN_UP_AFTER}
    assert asdict(found)["left_out"] == {"failed": GIVEN_UP_AFTER}, "as others make JSON of it"


@pytest.mark.parametrize("killed_after", [1, 7, 25, 40])
def test_a_killed_campaign_goes_on_at_the_very_trial(killed_after: int) -> None:
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
    assert common >= 3 * FIRST_LOOK
    spent_s = len(machine.order) * TRIAL_S
    assert spent_s <= 120, "the pause is not of its time"


def test_failed_trials_run_again_when_a_proving_campaign_is_resumed() -> None:
    """They did so only in campaigns that do not prove."""
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


def test_a_spent_budget_differs_from_a_decision() -> None:
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


def test_the_answer_of_a_set_number_of_blocks() -> None:
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nrepetitions: 10"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    measure_blocks(machine, text, 10)
    (found,) = answers(machine, text)
    assert verdicts(found) == {("basicfwd", "ovs-dpdk"): LeadVerdict.AHEAD}


def test_a_proven_lead_goes_before_typical_figures() -> None:
    """One of two was measured only while the machine was slow. Its typical figure is the lower one
    therefore, but within blocks it is ahead."""
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nrepetitions: 30"
    slow_from, switches = 18, ("basicfwd", "ovs-dpdk")

    class Turning(Machine):
        def is_far(self, at_s: float) -> bool:
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


def test_leads_are_seen_from_the_best_whoever_is_ahead_in_a_state() -> None:
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nrepetitions: 9"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    measure_blocks(machine, text, 9)
    (found,) = answers(machine, text)
    near = LeadRatio(1.5, 1.25, 2.0, 9, LeadVerdict.AHEAD, State.NEAR)
    far = LeadRatio(1.0, 0.98, 1.02, 9, LeadVerdict.SAME, State.FAR)
    lead = Lead("ovs-dpdk", "basicfwd", LeadVerdict.DEPENDS, (near, far), 9, None)
    found = replace(found, leads=(lead,))
    first, second = by_contender(found, [found]).lines
    assert (first.contender, first.lead) == ("basicfwd", "")
    ratios = "ovs-dpdk 1.5x (1.25 to 2) while fast, no lead of 5 % or more while slow"
    assert second.lead == f"depends on the state of the machine: {ratios}"
    assert by_point(found, [found]).endswith(f"; depends on the state of the machine: {ratios}")
    unclear = replace(near, low=0.5, verdict=LeadVerdict.UNDECIDED, state=None)
    lead = replace(lead, verdict=LeadVerdict.UNDECIDED, ratios=(unclear,), further_s=60.0)
    found = replace(found, leads=(lead,))
    assert by_contender(found, [found]).lines[1].lead == (
        "undecided (ratio between 0.50 and 2.0); about 1 min more would decide"
    )


@pytest.mark.parametrize(
    ("asked", "blocks"),
    [("until_ci: 2%", 12), ("repetitions: 5\nuntil_ci: 2%", 9), ("repetitions: 5", 9)],
)
def test_every_block_counts_for_the_leads_of_a_campaign_without_a_budget(
    asked: str, blocks: int
) -> None:
    """It ends by its figures (`until_ci`), or has more blocks than were asked for first."""
    text = f"switch: [basicfwd, ovs-dpdk]\npacket_size: 64\n{asked}"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    measure_blocks(machine, text, blocks)
    (found,) = answers(machine, text)
    (lead,) = found.leads
    assert (lead.verdict, lead.pairs) == (LeadVerdict.AHEAD, blocks)
    assert lead.ratios[0].low < 2 < lead.ratios[0].high < 3


def test_an_answer_has_the_interval_of_the_look_that_ended_the_campaign() -> None:
    text = "switch: [basicfwd, ovs-dpdk]\npacket_size: 64\nbudget: 2m"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6}, dwell_s=1e9)
    run_all(machine, campaign(text))
    (found,) = answers(machine, text)
    (lead,) = found.leads
    proving = Proving.of(campaign(text).model_dump(), usual_overhead_s)
    trials = [step.plan.trial for step in steps_of(campaign(text))]
    rule = proving.rule(trials, proving.round_s(trials))
    observed = [observe(one) for one in machine.records.values()]
    blocks = as_block_trials(observed, found.metric)
    ((at_it,), (at_the_end,)) = (
        [decision.ratio for decision in one.decisions]
        for spends_all in (False, True)
        for one in look(blocks, rule, found.blocks, is_last=spends_all)
    )
    widths = [math.log(one.high / one.low) for one in (lead.ratios[0], at_it, at_the_end)]
    assert found.blocks == FIRST_LOOK
    assert widths[0] == pytest.approx(widths[1]) and widths[1] > 1.1 * widths[2]


def test_a_contender_whose_figure_is_0_is_named() -> None:
    text = "switch: [basicfwd, ovs-dpdk, linux-bridge]\npacket_size: 64\nrepetitions: 5"
    machine = Machine({"basicfwd": 12e6, "ovs-dpdk": 6e6, "linux-bridge": 0.0}, dwell_s=1e9)
    measure_blocks(machine, text, 5)
    (found,) = answers(machine, text)
    assert found.left_out == {WITHOUT_RATIO: 5}


def _trial(text: str, switch: str, repetition: int) -> Trial:
    steps = [one for one in steps_of(campaign(text)) if one.plan.trial.switch == switch]
    return steps[0].plan.trial.repeated(repetition)


def test_a_set_number_of_blocks_is_kept_to() -> None:
    asked = campaign(f"{THREE}\nrepetitions: 2")
    assert not asked.proves
    assert asked.repetitions == 2
    assert campaign(THREE).proves
    assert campaign("switch: [basicfwd, ovs-dpdk]\nprove: 5%").budget_s == 600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prove: 5%\nuntil_ci: 2%", "until_ci: ends by another rule than prove and budget"),
        ("budget: 900ms", "budget: 900ms ends within the first block, whose trials measure 1 s"),
        ("confidence: 40%\nprove: 5%", "confidence must be above 50% and below 100%, not 40%"),
        ("prove: 0%", "must be above 0 %"),
    ],
)
def test_what_cannot_be_asked(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        campaign(f"switch: [basicfwd, ovs-dpdk]\npacket_size: 64\n{text}")


def test_contenders_on_different_cores_are_compared_with_their_states() -> None:
    """Lines between other cores take other times, and tell the same states."""
    elsewhere = {"ovs-dpdk": [0, 2, 3], "linux-bridge": [1, 0]}
    rates = {"linux-bridge": 0.4e6, "basicfwd": 12e6, "ovs-dpdk": 11e6}
    machine = Machine(rates, cores=elsewhere)
    run_all(machine, campaign(THREE))
    (found,) = answers(machine)
    assert found.lines is not None
    lead = found.between("basicfwd", "ovs-dpdk")
    assert lead is not None and lead.verdict is LeadVerdict.AHEAD
    assert all(one.low < 12 / 11 < one.high for one in lead.ratios)
    assert all(one.high / one.low < 1.2 for one in lead.ratios)


def test_looks_are_planned_for_what_the_campaign_is() -> None:
    """The more there is to measure in the time, the fewer blocks are reckoned with, and the more
    of the level is there for the first look."""
    proving = Proving.of(campaign(THREE).model_dump(), usual_overhead_s)
    made = [step.plan.trial for step in steps_of(campaign(THREE))]
    alone = proving.rule(made, proving.round_s(made))
    shared = proving.rule(made, 4 * proving.round_s(made))
    assert alone.expected == round(120 / sum(0.5 + usual_overhead_s(one.switch) for one in made))
    assert shared.expected == round(alone.expected / 4)
    assert alone.looks == shared.looks
    assert alone.looks[-1] * 2 * (0.5 + 0.2) <= 125, "two contenders fill the time"
    assert shared.level_at(FIRST_LOOK) > 2 * alone.level_at(FIRST_LOOK)
