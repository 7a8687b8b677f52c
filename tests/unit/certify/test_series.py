"""The rounds of a reference check: decisions are final, rounds without figures prove nothing."""

from __future__ import annotations

import pytest

from switchmark.certify.ceiling import saturated_error
from switchmark.certify.duplicates import missing
from switchmark.certify.registry import CHECKS
from switchmark.certify.support.certification import PORTS, switch_for
from switchmark.certify.support.decision import MOST_ROUNDS
from switchmark.certify.support.reference_check import Round
from switchmark.certify.support.series import CONTRADICTIONS, FAILURES, Series
from switchmark.engine.events import IntervalEvent
from switchmark.environment.netns import NetnsEnvironment
from switchmark.errors import TrialFailed
from switchmark.record.certificate import NOT_TRIED, PROVEN, REFUTED, UNDECIDED


def series_of(name: str, *rounds: Round) -> Series:
    series = Series(CHECKS[name])
    for round_ in rounds:
        series.add(round_, 40.0, 0.5)
    return series


def test_every_check_has_name_meaning_and_unit() -> None:
    for name, check in CHECKS.items():
        assert check.name == name and check.meaning and check.against
        assert check.unit in ("frames", "ratio", "ns")
        assert (check.within == 0) <= (check.unit == "frames")


def test_series_is_open_until_all_figures_are_decided() -> None:
    series = series_of("counts", *[Round({"sent": 0, "received": 0}, frames=100_000)] * 2)
    assert series.is_open and series.outcome == UNDECIDED
    series.add(Round({"sent": 0, "received": 0}, frames=100_000), 40.0, 0.5)
    assert not series.is_open and series.outcome == PROVEN


def test_one_wrong_figure_refutes_the_check() -> None:
    series = series_of("counts", *[Round({"sent": 0, "received": 2}, frames=100_000)] * 3)
    assert series.outcome == REFUTED and not series.is_open
    assert {figure.quantity: figure.outcome for figure in series.figures(None)} == {
        "sent": PROVEN,
        "received": REFUTED,
    }


def test_errors_are_decided_by_their_median() -> None:
    right = series_of("pacing", *[Round({"schedule": 0.0001 * k}) for k in range(-5, 6)])
    wrong = series_of("pacing", *[Round({"schedule": 0.01 + 0.0001 * k}) for k in range(-5, 6)])
    assert (right.outcome, wrong.outcome) == (PROVEN, REFUTED)


def test_tolerance_of_times_below_the_kernels_is_smaller() -> None:
    for name in ("one-way", "round-trip"):
        errors = {"shortest": 300, "median": 300, "100 us each way": 0}
        low = series_of(name, *[Round(errors | {"shortest": -2_200 + k}) for k in range(10)])
        right = series_of(name, *[Round(errors | {"shortest": 2_200 + k}) for k in range(10)])
        assert low.outcome == REFUTED and right.judged["shortest"].outcome == PROVEN
        (figure,) = (item for item in low.figures(None) if item.quantity == "shortest")
        assert (figure.within, figure.within_below) == (2_500, 1_000)


def test_resolution_is_the_smallest_step_above_zero() -> None:
    def levels(added_ns: tuple[int, int, int], wrong_rounds: int = 0) -> dict[str, float]:
        names = [f"ns seen of {us} us" for us in (1, 2, 5)]
        both = (added_ns, (-9, *added_ns[1:]))
        right, wrong = (dict(zip(names, values, strict=True)) for values in both)
        rounds = [
            Round({"5 us": added_ns[2] - 5_000}, figures={"grain, ns": 16.0, **figures})
            for figures in [wrong] * wrong_rounds + [right] * (9 - wrong_rounds)
        ]
        return series_of("resolution", *rounds).levels()

    resolved = "resolution: distinguished from none, us"
    assert levels((990, 2_010, 5_005))[resolved] == 1
    assert levels((990, 2_010, 5_005), wrong_rounds=4)[resolved] == 2, "the median may be negative"
    assert levels((990, -10, 5_005))[resolved] == 5, "all longer steps must be above zero"
    unresolved = levels((0, 0, 0))
    assert resolved not in unresolved and unresolved["resolution: grain, ns"] == 16
    assert series_of("resolution").levels() == {}


def test_longest_step_without_effect_refutes() -> None:
    none = {f"ns seen of {us} us": 0.0 for us in (1, 2, 5)}
    assert series_of("resolution", *[Round({"5 us": -5_000}, figures=none)] * 8).outcome == REFUTED


def test_undecided_figure_names_the_time_needed() -> None:
    series = series_of("pacing", *[Round({"schedule": 0.004 * (-1) ** k}) for k in range(4)])
    series.end()
    (figure,) = series.figures(None)
    assert figure.outcome == UNDECIDED and "more are needed to decide it" in figure.why


def test_series_without_figures_ends_undecided() -> None:
    series = Series(CHECKS["rate"])
    rounds = 0
    while series.is_open and rounds < MOST_ROUNDS:
        series.add_failure("no core in time", 1.0)
        rounds += 1
    series.end()
    (figure,) = series.figures(None)
    assert (rounds, figure.outcome, figure.why) == (FAILURES, UNDECIDED, "no core in time")


def test_contradictory_counts_refute() -> None:
    series = Series(CHECKS["counts"])
    for _ in range(CONTRADICTIONS):
        series.add_failure("counts contradict each other", 1.0, contradicts=True)
    assert series.outcome == REFUTED and not series.is_open
    assert [figure.outcome for figure in series.figures(None)] == [REFUTED]


def add_contradiction(series: Series) -> None:
    series.add_failure("counts contradict each other", 1.0, contradicts=True)


@pytest.mark.parametrize("number", [1, 2])
def test_few_contradictions_leave_counts_undecided(number: int) -> None:
    clean = Round({"sent": 0, "received": 0}, frames=200_000)
    series = series_of("counts", clean)
    for _ in range(number):
        add_contradiction(series)
    series.add(clean, 40.0, 0.5)
    series.add(clean, 40.0, 0.5)
    assert series.outcome == UNDECIDED and series.is_open


@pytest.mark.parametrize("name", ["counts", "rate"])
def test_three_contradictions_refute_in_certificate(name: str) -> None:
    series = series_of(name, Round({"error": 0.0}, frames=1_000))
    for _ in range(CONTRADICTIONS):
        add_contradiction(series)
    series.end()
    (figure,) = series.figures(None)
    assert series.outcome == figure.outcome == REFUTED
    assert figure.why == "counts contradict each other"


def test_wrong_round_and_contradictions_refute_together() -> None:
    series = series_of("counts", Round({"sent": 0, "received": 1}, frames=1_000))
    for _ in range(CONTRADICTIONS - 1):
        add_contradiction(series)
    outcomes = {figure.quantity: figure.outcome for figure in series.figures(None)}
    assert outcomes == {"sent": UNDECIDED, "received": REFUTED}


def test_series_with_reason_is_not_tried() -> None:
    series = Series(CHECKS["one-way"], why_not="no calls")
    assert not series.is_open and [figure.outcome for figure in series.figures(None)] == [NOT_TRIED]


def test_port_kinds_of_certify_exist_in_namespaces() -> None:
    for kind in PORTS:
        assert kind in switch_for(kind).capabilities.port_kinds
        assert kind in NetnsEnvironment().port_kinds()


def saturated(frames: int, drops: int) -> IntervalEvent:
    """A tenth of a second of a receiver."""
    return IntervalEvent.model_construct(
        t_ns=100_000_000, duration_ns=100_000_000, rx_frames=frames, rx_socket_drops=drops
    )


def test_saturated_error_excludes_drops_at_the_socket() -> None:
    """Packet rings drop frames at full load, and this is not an error of the receiver's count."""
    readings = [(0, 0), (100_000_000, 10_000)]
    assert saturated_error([saturated(10_000, 0)], readings) == pytest.approx(0)
    assert saturated_error([saturated(7_000, 3_000)], readings) == pytest.approx(0)
    assert saturated_error([saturated(6_860, 3_000)], readings) == pytest.approx(-0.02)
    with pytest.raises(TrialFailed, match="no core"):
        saturated_error([saturated(0, 10_000)], readings)


@pytest.mark.parametrize(
    ("duplicates", "lost", "socket_drops", "error"),
    [
        (100, 0, 0, 0),
        (99, 0, 1, 0),  # the socket dropped one of two copies
        (100, 1, 1, 0),  # the socket dropped a frame without a copy
        (99, 1, 2, 0),  # the socket dropped both copies
        (98, 0, 1, 1),
        (97, 1, 9, -5),
        (100, 0, 3, -3),
    ],
)
def test_missing_copies_exclude_losses_and_socket_drops(
    duplicates: int, lost: int, socket_drops: int, error: int
) -> None:
    assert missing(100, duplicates, lost, socket_drops) == error
