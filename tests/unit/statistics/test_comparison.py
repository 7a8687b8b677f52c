"""Ratios with correct intervals, corrected p-values, verdicts, and changes in a series."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr
from scipy.stats import mannwhitneyu

from switchmark.errors import UsageError
from switchmark.statistics.comparison import Correction, Ratio, Verdict, adjust, judge, ratio_of
from switchmark.statistics.series import (
    Newest,
    find_changes,
    is_recent,
    newest_run,
    verdict_of_newest,
)

RUNS = 600


def values(dice: Any, level: float = 1e6, spread: float = 0.01, count: int = 5) -> Any:
    return [level * math.exp(dice.gauss(0, spread)) for _ in range(count)]


@pytest.mark.parametrize(("count_a", "count_b", "spread_b"), [(3, 3, 0.01), (5, 10, 0.05)])
def test_t_intervals_cover_the_ratio_at_their_nominal_rate(
    count_a: Any, count_b: Any, spread_b: Any
) -> None:
    dice, covered = random.Random(1), 0
    for _ in range(RUNS):
        a = values(dice, 1e6, 0.01, count_a)
        found = ratio_of(a, values(dice, 0.9e6, spread_b, count_b))
        covered += found.low <= 0.9 <= found.high
    assert "Welch" in found.method
    assert 0.93 <= covered / RUNS <= 0.98


def test_bootstrap_intervals_cover_for_skewed_values() -> None:
    dice, covered, total = random.Random(2), 0, 0
    for _ in range(150):
        a = [1.0 + dice.expovariate(2.0) for _ in range(30)]
        b = [2.0 + 2 * dice.expovariate(2.0) for _ in range(30)]
        found = ratio_of(a, b)
        if "bootstrap" in found.method:
            total += 1
            covered += found.low <= 2.0 <= found.high
    assert total > 90
    assert 0.92 <= covered / total <= 0.99


def test_equal_switches_are_rarely_called_different() -> None:
    dice = random.Random(3)
    wrong = sum(ratio_of(values(dice), values(dice)).p < 0.05 for _ in range(RUNS))
    assert 0.025 <= wrong / RUNS <= 0.075


def test_interval_and_p_agree() -> None:
    dice = random.Random(4)
    for count, skewed in ((4, False), (20, True)):
        for _ in range(100):
            a = [x + (dice.expovariate(1e-5) if skewed else 0) for x in values(dice, count=count)]
            b = [x * 1.01 for x in values(dice, count=count)]
            found = ratio_of(a, b)
            clear = abs(found.p - 0.05) > 0.005
            assert not clear or (found.p < 0.05) == (not found.low <= 1 <= found.high)


@given(
    st.lists(st.floats(1, 1e9), min_size=2, max_size=12),
    st.lists(st.floats(1, 1e9), min_size=2, max_size=12),
)
def test_swapped_comparison_has_the_inverse_ratio(a: Any, b: Any) -> None:
    forth, back = ratio_of(a, b), ratio_of(b, a)
    assert forth.value == pytest.approx(1 / back.value, rel=1e-9)
    assert forth.low == pytest.approx(1 / back.high, rel=1e-6)
    assert forth.p == pytest.approx(back.p, abs=1e-9)
    assert forth.low <= forth.value * (1 + 1e-12)
    assert forth.value <= forth.high * (1 + 1e-12)


def test_welch_on_a_worked_example() -> None:
    """By the published formulas (B. L. Welch, Biometrika 34, 1947), on logarithms."""
    a, b = [20.1, 19.9, 20.6, 20.3], [22.0, 21.2, 23.1, 21.9, 22.4]
    logs = [[math.log(value) for value in side] for side in (a, b)]
    means = [statistics.fmean(side) for side in logs]
    errors = [statistics.variance(side) / len(side) for side in logs]
    degrees = sum(errors) ** 2 / (errors[0] ** 2 / 3 + errors[1] ** 2 / 4)
    found = ratio_of(a, b)
    assert found.value == pytest.approx(math.exp(means[1] - means[0]))
    t = (means[1] - means[0]) / math.sqrt(sum(errors))
    assert found.p == pytest.approx(2 * stdtr(degrees, -t), rel=1e-6)


def test_untestable_values_are_not_tested() -> None:
    assert ratio_of([1.0], [2.0, 2.1]).p is None
    assert ratio_of([1.0], [2.0]).value == 2.0
    assert ratio_of([], [2.0]).value is None
    assert ratio_of([0.0], [2.0, 3.0]).p is None
    assert ratio_of([2.0, 2.0], [2.0, 2.0]).p == 1.0
    assert ratio_of([2.0, 2.0], [3.0, 3.0]).p == 0.0


def test_ranks_are_compared_if_a_figure_is_0() -> None:
    nothing, little = [0.0] * 5, [1e-6, 2e-6, 1e-6, 3e-6, 2e-6]
    pairs = [(little, nothing), (nothing, little), (nothing, nothing), (nothing[:2], little[:2])]
    ratios = [ratio_of(a, b) for a, b in pairs]
    assert [one.value for one in ratios] == [0.0, None, 1.0, None]
    less, more = (
        [one.verdict for one in judge(ratios, higher_is_better=[good] * 4, correction="none")]
        for good in (False, True)
    )
    assert less == [Verdict.BETTER, Verdict.WORSE, Verdict.SAME, Verdict.UNCLEAR]
    assert more == [Verdict.WORSE, Verdict.BETTER, Verdict.SAME, Verdict.UNCLEAR]
    assert ratios[1].p == pytest.approx(mannwhitneyu(little, nothing).pvalue)


def test_holm_and_fdr_follow_the_published_procedures() -> None:
    p = [0.01, 0.04, 0.03, 0.005, None]
    assert adjust(p, Correction.HOLM) == pytest.approx([0.03, 0.06, 0.06, 0.02, None])
    assert adjust(p, Correction.FDR) == pytest.approx([0.02, 0.04, 0.04, 0.02, None])
    assert adjust(p, Correction.NONE) == p


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=30))
def test_adjusted_p_values_are_no_smaller_and_keep_their_order(p: Any) -> None:
    for correction in Correction:
        adjusted = adjust(p, correction)
        pairs = [(a, b) for a, b in zip(p, adjusted, strict=True) if a is not None]
        assert all(raw - 1e-12 <= new <= 1 for raw, new in pairs)
        news = [new for _, new in sorted(pairs)]
        assert news == sorted(news)
        assert [b is None for b in adjusted] == [a is None for a in p]


def test_holm_keeps_false_differences_to_one_in_twenty_sets() -> None:
    dice, sets_with_one = random.Random(5), 0
    for _ in range(100):
        ratios = [ratio_of(values(dice), values(dice)) for _ in range(10)]
        judged = judge(ratios, higher_is_better=[True] * 10, threshold=0.0)
        sets_with_one += any(one.verdict in (Verdict.BETTER, Verdict.WORSE) for one in judged)
    assert sets_with_one / 100 < 0.12


@pytest.mark.parametrize(
    ("value", "low", "high", "p", "verdict"),
    [
        (0.90, 0.85, 0.95, 0.001, Verdict.WORSE),
        (1.10, 1.05, 1.15, 0.001, Verdict.BETTER),
        (0.99, 0.985, 0.995, 0.001, Verdict.NEGLIGIBLE),
        (1.00, 0.99, 1.01, 0.8, Verdict.SAME),
        (0.95, 0.80, 1.12, 0.3, Verdict.UNCLEAR),
        (0.95, None, None, None, Verdict.UNTESTABLE),
    ],
)
def test_verdicts(value: Any, low: Any, high: Any, p: Any, verdict: Any) -> None:
    ratio = Ratio(value, low, high, p, "test", 5, 5)
    assert judge([ratio], higher_is_better=[True])[0].verdict is verdict
    other = {Verdict.WORSE: Verdict.BETTER, Verdict.BETTER: Verdict.WORSE}.get(verdict, verdict)
    assert judge([ratio], higher_is_better=[False])[0].verdict is other


def test_a_threshold_of_one_or_more_is_refused() -> None:
    with pytest.raises(UsageError, match="threshold"):
        judge([], higher_is_better=[], threshold=1.0)


def nights(dice: Any, levels: Any, between: float = 0.005) -> Any:
    return [
        values(dice, 1e6 * level * math.exp(dice.gauss(0, between)), 0.002, 3) for level in levels
    ]


def test_newest_run_is_compared_with_the_spread_of_runs() -> None:
    dice = random.Random(6)
    wrong = sum(newest_run(nights(dice, [1.0] * 6)).p < 0.05 for _ in range(300))
    assert 0.02 <= wrong / 300 <= 0.09
    found = [newest_run(nights(dice, [1.0] * 9 + [0.9])) for _ in range(100)]
    assert sum(one.p < 0.01 for one in found) > 95
    assert found[0].ratio == pytest.approx(0.9, rel=0.03)


def test_short_history_gives_no_verdict() -> None:
    assert newest_run([[1.0, 1.0]] * 3) is None
    assert verdict_of_newest(None, None, True, 0.02) is Verdict.UNTESTABLE


def test_change_of_level_is_found_at_its_place() -> None:
    dice, places = random.Random(7), []
    for _ in range(60):
        changes = find_changes(nights(dice, [1.0] * 8 + [0.9] * 8))
        places += [change.index for change in changes]
        assert all(change.ratio == pytest.approx(0.9, rel=0.03) for change in changes)
    assert len(places) >= 55
    assert sum(place == 8 for place in places) / len(places) > 0.95


def test_a_level_series_has_no_changes() -> None:
    dice = random.Random(8)
    assert sum(bool(find_changes(nights(dice, [1.0] * 12))) for _ in range(100)) <= 4


def test_newest_run_after_a_change_is_compared_with_new_level() -> None:
    dice = random.Random(9)
    runs = nights(dice, [1.0] * 8 + [0.9] * 8 + [0.9])
    found = newest_run(runs)
    assert found.runs == 8
    assert found.ratio == pytest.approx(1.0, abs=0.03)


def test_verdicts_on_the_newest_run() -> None:
    worse = Newest(0.9, 0.98, 1.02, 0.001, 8)
    assert verdict_of_newest(worse, 0.001, True, 0.02) is Verdict.WORSE
    assert verdict_of_newest(worse, 0.001, False, 0.02) is Verdict.BETTER
    assert verdict_of_newest(Newest(1.0, 0.99, 1.01, 0.9, 8), 0.9, True, 0.02) is Verdict.SAME
    assert verdict_of_newest(Newest(0.9, 0.8, 1.2, 0.3, 3), 0.3, True, 0.02) is Verdict.UNCLEAR
    assert (
        verdict_of_newest(Newest(0.99, 0.995, 1.005, 0.01, 8), 0.01, True, 0.02)
        is Verdict.NEGLIGIBLE
    )


def test_only_recent_changes_are_reported() -> None:
    change = find_changes(nights(random.Random(10), [1.0] * 8 + [0.8] * 8))[0]
    assert is_recent(change, 11)
    assert not is_recent(change, 12)
