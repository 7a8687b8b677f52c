"""MLRsearch on switches of known capacity, and its result if noise decides."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.method import ndr_pdr
from switchmark.method.support.bounds import STARVED_TRIALS, conclude
from switchmark.method.support.goal import PRESETS, Goal, preset
from switchmark.method.support.measurer import LoadPoint
from switchmark.simulation import bisection
from switchmark.simulation.in_kernel import Blocking, BlockingSwitch
from switchmark.simulation.switch import Behaviour, SimulatedSwitch

MAX_PPS = 20e6
WIDTH = 0.005


def run(
    seed: int = 0,
    goals: str = "csit",
    *,
    budget_s: float = 1e9,
    capacity_pps: float = 3.3e6,
    max_pps: Any = MAX_PPS,
    **faults: Any,
) -> Any:
    switch = SimulatedSwitch(Behaviour(capacity_pps=capacity_pps, **faults), seed)
    chosen = preset(goals) if isinstance(goals, str) else goals
    return ndr_pdr.search(switch, chosen, max_pps=max_pps, budget_s=budget_s)


@settings(max_examples=200, deadline=None)
@given(
    capacity=st.floats(2e4, 1.9e7),
    name=st.sampled_from(sorted(PRESETS)),
    seed=st.integers(0, 1000),
)
def test_bounds_without_noise_contain_the_capacity(capacity: Any, name: Any, seed: Any) -> None:
    result = run(seed, name, capacity_pps=capacity)
    assert result.stopped == "done"
    for goal, bounds in zip(preset(name), result.bounds, strict=True):
        true_pps = capacity / (1 - bounds.loss_ratio)
        # A load that exceeds the true value by less than a frame in a trial also passes.
        slack = 2 / goal.final_trial_s
        assert bounds.lower_pps <= true_pps + slack
        assert bounds.upper_pps >= true_pps - slack
        assert bounds.reached
        assert bounds.decided_by == "switch"
        assert bounds.conditional_throughput_pps <= bounds.lower_pps
        carried = bounds.lower_pps * (1 - bounds.loss_ratio)
        assert bounds.conditional_throughput_pps >= carried * (1 - 1e-9)


def test_bounds_under_noise_cover_at_the_stated_rate() -> None:
    """Evidence for docs/evidence/searches.md, at a noise of 0.2 widths."""
    inside = close = total = 0
    for seed in range(400):
        capacity = random.Random(seed).uniform(0.2e6, 12e6)
        for bounds in run(seed, capacity_pps=capacity, trial_noise=0.2 * WIDTH).bounds:
            true_pps = capacity / (1 - bounds.loss_ratio)
            total += 1
            inside += bounds.lower_pps <= true_pps <= bounds.upper_pps
            close += bounds.lower_pps * 0.995 <= true_pps <= bounds.upper_pps * 1.005
    assert total == 800
    assert inside / total > 0.92
    assert close / total > 0.99


def test_noise_is_reported_only_if_it_decides() -> None:
    def share(widths: Any) -> Any:
        noise_decides = [
            bounds.decided_by == "noise"
            for seed in range(150)
            for bounds in run(
                seed,
                capacity_pps=random.Random(seed).uniform(0.2e6, 12e6),
                trial_noise=widths * WIDTH,
            ).bounds
        ]
        return sum(noise_decides) / len(noise_decides)

    assert share(0.2) < 0.01
    assert share(2.0) > 0.85
    assert share(4.0) > 0.93


def test_search_that_noise_decides_stops_early() -> None:
    early = [run(seed, trial_noise=0.02) for seed in range(40)]
    late = []
    for seed in range(40):
        switch = SimulatedSwitch(Behaviour(capacity_pps=3.3e6, trial_noise=0.02), seed)
        late.append(
            ndr_pdr.search(
                switch, preset("csit"), max_pps=MAX_PPS, budget_s=1e9, stop_on_noise=False
            )
        )
    stopped = [result for result in early if result.stopped == "noise"]
    assert len(stopped) > 30
    assert sum(r.spent_s for r in early) < 0.5 * sum(r.spent_s for r in late)
    for result in stopped:
        for bounds in result.bounds:
            if bounds.decided_by == "noise":
                assert bounds.mixed_from_pps < bounds.mixed_to_pps
                assert "noise decides" in bounds.notes[0]


def noisy(bad: Any) -> Any:
    """Bounds of the NDR after trials at two loads, of which half are bad in this way."""
    (goal,) = [goal for goal in preset("csit") if goal.name == "NDR"]
    good = {"offered_pps": 1e5, "forwarded_pps": 1e5, "offered_frames": 100_000, "lost_frames": 0,
                "duration_s": 1.0, "intended_frames": 100_000, "ring_full_share": 0.0}  # fmt: skip
    trials = [
        LoadPoint(intended_pps=load, **{**good, **changes})
        for load in (1e5, 1.2e5)
        for changes in [{}, {}, {}, bad, bad, bad]
    ]
    return conclude(goal, 1e5, 1.2e5, 1e5, trials, (1e4, 1e6))


@pytest.mark.parametrize(
    ("bad", "note"),
    [
        ({"lost_frames": 300, "ring_full_share": 0.9}, "in 6 of 6 bad trials the sender's ring"),
        ({"offered_frames": 99_000}, "in 6 of 6 bad trials the sender gave up frames"),
        ({"lost_frames": 300}, None),
    ],
)
def test_noise_note_names_the_common_cause(bad: Any, note: Any) -> None:
    found = noisy(bad)
    assert found.decided_by == "noise"
    assert "quiet the machine" in found.notes[0]
    assert len(found.notes) == 1 if note is None else found.notes[1].startswith(note)


def test_two_bands_are_reported_as_noise() -> None:
    noise_decides = [
        run(seed, second_band=0.93, band_stay=0.3)["NDR"].decided_by == "noise"
        for seed in range(60)
    ]
    assert sum(noise_decides) > 36


@settings(max_examples=150, deadline=None)
@given(
    budget=st.floats(2, 200),
    name=st.sampled_from(sorted(PRESETS)),
    noise=st.sampled_from([0.0, 0.003, 0.05]),
    overhead=st.sampled_from([0.0, 0.4]),
    seed=st.integers(0, 1000),
)
def test_search_stays_within_its_budget(
    budget: Any, name: Any, noise: Any, overhead: Any, seed: Any
) -> None:
    result = run(seed, name, budget_s=budget, trial_noise=noise, overhead_s=overhead)
    # The overhead of the first trial is unknown before it.
    assert result.spent_s <= budget + overhead + 1e-6
    assert result.spent_s == pytest.approx(sum(trial.cost_s for trial in result.trials))
    if result.stopped == "budget":
        assert not all(bounds.reached for bounds in result.bounds)


def test_search_that_budget_ends_has_a_note() -> None:
    bounds = run(budget_s=12.0)["NDR"]
    assert not bounds.reached
    assert bounds.decided_by == "budget"
    assert "ended before" in bounds.notes[0]


def test_capacity_above_range_has_no_upper_bound() -> None:
    bounds = run(capacity_pps=30e6)["NDR"]
    assert bounds.upper_pps is None
    assert bounds.lower_pps == pytest.approx(MAX_PPS)
    assert bounds.decided_by == "range"
    assert "raise the maximum" in bounds.notes[0]


def test_capacity_below_range_has_no_lower_bound() -> None:
    bounds = run(capacity_pps=5e3)["NDR"]
    assert bounds.lower_pps is None
    assert bounds.decided_by == "range"
    assert bounds.conditional_throughput_pps is None


def test_limit_of_sender_is_attributed_to_sender() -> None:
    bounds = run(capacity_pps=10e6, sender_ceiling_pps=4e6)["NDR"]
    assert bounds.decided_by == "sender"
    assert bounds.lower_pps <= 4e6 * 1.001 <= bounds.upper_pps * 1.001
    assert "may carry more" in bounds.notes[0]


def test_back_pressure_is_attributed_to_switch() -> None:
    bounds = run(back_pressure=True)["NDR"]
    assert bounds.decided_by == "switch"
    assert bounds.lower_pps <= 3.3e6 * 1.001 <= bounds.upper_pps * 1.001
    assert "refused frames" in bounds.notes[0]


def test_rare_losses_do_not_move_csit_bounds() -> None:
    results = [run(seed, rare_losses_per_s=0.2) for seed in range(30)]
    for result in results:
        assert result["NDR"].lower_pps <= 3.3e6 <= result["NDR"].upper_pps


def test_rare_losses_that_move_rfc2544_ndr_have_a_note() -> None:
    noted = 0
    for seed in range(20):
        ndr = run(seed, "rfc2544", rare_losses_per_s=0.1)["NDR"]
        noted += any("not overload" in note for note in ndr.notes)
    assert noted > 15


class Starved:
    """A switch in the kernel whose sender loses its core after some trials."""

    def __init__(self, calm_trials: int) -> None:
        self.calm_trials = calm_trials
        self.trials = 0
        calm = Blocking(capacity_pps=5e5)
        self.calm = BlockingSwitch(calm)
        self.starved = BlockingSwitch(dataclasses.replace(calm, descheduled_share=1e3))

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        self.trials += 1
        switch = self.calm if self.trials <= self.calm_trials else self.starved
        return switch.measure(duration_s, load_pps)


@pytest.mark.parametrize("goals", sorted(PRESETS))
def test_search_without_cores_ends_early(goals: str) -> None:
    """Each trial is repeated twice. All loads down to the lowest took four minutes before."""
    result = ndr_pdr.search(Starved(0), preset(goals), max_pps=1e6, min_pps=100)
    assert result.stopped == "cores"
    assert len(result.trials) == result.warm_up_trials + STARVED_TRIALS
    assert result.spent_s < 20
    for bounds in result.bounds:
        assert (bounds.lower_pps, bounds.upper_pps, bounds.decided_by) == (None, None, "cores")
        assert f"in the last {STARVED_TRIALS} trials" in bounds.notes[0]
        assert "more than 50% of the time" in bounds.notes[0]


def test_bounds_stay_unconfirmed_without_cores() -> None:
    """Trials without cores once removed a lower bound that trials with cores had shown."""
    result = ndr_pdr.search(Starved(12), preset("quick"), max_pps=1e6)
    for bounds in result.bounds:
        assert bounds.lower_pps == pytest.approx(5e5, rel=0.01)
        assert not bounds.confirmed
        assert "kept from its core before the bounds were confirmed" in bounds.notes[-1]


def test_result_has_all_trials_and_their_warm_up() -> None:
    result = run(trial_noise=0.001)
    assert result.warm_up_trials == 1
    assert result.trials[0].intended_pps == MAX_PPS
    assert all(9001.0 <= trial.intended_pps <= MAX_PPS for trial in result.trials)
    assert len(result.trials) > 20


def test_csit_preset_equals_fd_io_csit() -> None:
    ndr, pdr = preset("csit")
    assert (ndr.loss_ratio, pdr.loss_ratio) == (0.0, 0.005)
    for goal in (ndr, pdr):
        assert (goal.initial_trial_s, goal.final_trial_s) == (1.0, 1.0)
        assert (goal.duration_sum_s, goal.exceed_ratio, goal.width) == (21.0, 0.5, 0.005)


def test_rfc2544_bounds_need_one_full_trial() -> None:
    result = run(goals="rfc2544")
    at_lower = [t for t in result.trials if t.intended_pps == result["NDR"].lower_pps]
    assert [t.duration_s for t in at_lower if t.duration_s >= 60.0] == [60.0]


def test_tst009_repeats_a_bad_trial() -> None:
    result = run(goals="tst009")
    at_upper = [t for t in result.trials if t.intended_pps == result["NDR"].upper_pps]
    assert sum(t.duration_s >= 60.0 for t in at_upper) == 2


def test_search_accepts_other_goals() -> None:
    strict = dataclasses.replace(preset("csit")[0], name="1e-5", loss_ratio=1e-5, width=0.02)
    bounds = run(goals=[strict])["1e-5"]
    assert bounds.lower_pps <= 3.3e6 / (1 - 1e-5) <= bounds.upper_pps
    assert bounds.reached_width <= 0.02


@pytest.mark.parametrize(
    ("field", "value"),
    [("loss_ratio", 1.0), ("exceed_ratio", -0.1), ("width", 0.0), ("duration_sum_s", 0.5)],
)
def test_bad_goal_is_refused_with_its_field(field: Any, value: Any) -> None:
    with pytest.raises(UsageError, match=field):
        dataclasses.replace(preset("csit")[0], **{field: value})


def test_bad_ranges_and_presets_are_refused() -> None:
    with pytest.raises(UsageError, match="minimum"):
        run(max_pps=5000.0)
    with pytest.raises(UsageError, match="csit, quick, rfc2544, tst009"):
        preset("cist")


def test_goal_that_library_refuses_is_usage_error() -> None:
    goal = Goal(
        name="x", loss_ratio=0, final_trial_s=1, duration_sum_s=5, exceed_ratio=0.5, width=0.01,
        preceding_targets=0,
    )  # fmt: skip
    with pytest.raises(UsageError, match="preceding"):
        run(goals=[goal])


def test_search_takes_half_the_time_of_two_bisections() -> None:
    """At the same width, against RFC 2544 trials and against trials of the same 21 s."""
    for trial_s in (60.0, 21.0):
        together = separate = 0.0
        for seed in range(50):
            behaviour = Behaviour(
                capacity_pps=random.Random(seed).uniform(0.2e6, 12e6),
                trial_noise=0.001,
                overhead_s=0.3,
            )
            together += ndr_pdr.search(
                SimulatedSwitch(behaviour, seed), preset("csit"), max_pps=14.88e6
            ).spent_s
            for loss in (0.0, 0.005):
                goal = bisection.bisection_goal("x", loss, trial_s=trial_s, width=WIDTH)
                separate += bisection.search(
                    SimulatedSwitch(behaviour, seed), goal, max_pps=14.88e6
                ).spent_s
        assert together < 0.5 * separate


def test_capacity_below_default_lowest_load_is_found() -> None:
    switch = SimulatedSwitch(Behaviour(capacity_pps=1200.0), 0)
    result = ndr_pdr.search(switch, preset("quick"), max_pps=1792.0, min_pps=1.792)
    assert result["NDR"].lower_pps == pytest.approx(1200, rel=0.02)


@pytest.mark.parametrize("goals", ["csit", "quick"])
def test_deep_queue_does_not_raise_ndr(goals: str) -> None:
    """Frames of a second fit into a queue in front of the switch, so trials of a second lose
    nothing up to twice the capacity."""
    deep = {"capacity_pps": 3e6, "buffer_frames": 3_000_000}
    found = run(goals=goals, **deep)["NDR"]
    assert found.lower_pps == pytest.approx(3e6, rel=0.02)
    assert found.decided_by == "switch"
    wrong = run(goals=goals, residual_s=math.inf, **deep)["NDR"]
    assert wrong.lower_pps > 1.5 * 3e6
