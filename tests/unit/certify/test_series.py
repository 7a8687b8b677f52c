"""A truth under way: what is decided stays so, and turns without figures prove nothing."""

from __future__ import annotations

import pytest

from switchmark.certify.ceiling import saturated_error
from switchmark.certify.duplicates import missing
from switchmark.certify.registry import TRUTHS
from switchmark.certify.support.certification import PORTS, switch_for
from switchmark.certify.support.decision import MOST_TURNS
from switchmark.certify.support.series import CONTRADICTIONS, FAILURES, Series
from switchmark.certify.support.truth import Turn
from switchmark.engine.events import IntervalEvent
from switchmark.environment.netns import NetnsEnvironment
from switchmark.errors import TrialFailed
from switchmark.record.certificate import NOT_TRIED, PROVEN, REFUTED, UNDECIDED


def fed(name: str, *turns: Turn) -> Series:
    made = Series(TRUTHS[name])
    for turn in turns:
        made.add(turn, 40.0, 0.5)
    return made


def test_every_truth_says_what_it_is() -> None:
    for name, one in TRUTHS.items():
        assert one.name == name and one.meaning and one.against
        assert one.unit in ("frames", "ratio", "ns")
        assert (one.within == 0) <= (one.unit == "frames")


def test_a_truth_is_open_until_all_its_figures_are_decided() -> None:
    one = fed("counts", *[Turn({"sent": 0, "received": 0}, frames=100_000)] * 2)
    assert one.is_open and one.outcome == UNDECIDED
    one.add(Turn({"sent": 0, "received": 0}, frames=100_000), 40.0, 0.5)
    assert not one.is_open and one.outcome == PROVEN


def test_one_wrong_figure_refutes_the_truth() -> None:
    one = fed("counts", *[Turn({"sent": 0, "received": 2}, frames=100_000)] * 3)
    assert one.outcome == REFUTED and not one.is_open
    assert {figure.quantity: figure.outcome for figure in one.figures(None)} == {
        "sent": PROVEN,
        "received": REFUTED,
    }


def test_differences_are_decided_by_their_median() -> None:
    right = fed("pacing", *[Turn({"schedule": 0.0001 * k}) for k in range(-5, 6)])
    wrong = fed("pacing", *[Turn({"schedule": 0.01 + 0.0001 * k}) for k in range(-5, 6)])
    assert (right.outcome, wrong.outcome) == (PROVEN, REFUTED)


def test_times_that_enclose_the_kernels_may_hardly_be_shorter() -> None:
    for name in ("one-way", "round-trip"):
        ours = {"shortest": 300, "median": 300, "100 us each way": 0}
        low = fed(name, *[Turn(ours | {"shortest": -2_200 + k}) for k in range(10)])
        right = fed(name, *[Turn(ours | {"shortest": 2_200 + k}) for k in range(10)])
        assert low.outcome == REFUTED and right.judged["shortest"].outcome == PROVEN
        (figure,) = (one for one in low.figures(None) if one.quantity == "shortest")
        assert (figure.within, figure.within_below) == (2_500, 1_000)


def test_the_resolution_is_the_smallest_step_that_all_turns_tell_from_none() -> None:
    def of(seen_ns: tuple[int, int, int], wrong_turns: int = 0) -> dict[str, float]:
        names = [f"ns seen of {us} us" for us in (1, 2, 5)]
        right, wrong = (dict(zip(names, one, strict=True)) for one in (seen_ns, (-9, *seen_ns[1:])))
        figures = [wrong] * wrong_turns + [right] * (9 - wrong_turns)
        turns = [Turn({"5 us": seen_ns[2] - 5_000}, figures={"grain, ns": 16.0, **one})
                 for one in figures]  # fmt: skip
        return fed("resolution", *turns).levels()

    told = "resolution: told from none, us"
    assert of((990, 2_010, 5_005))[told] == 1
    assert of((990, 2_010, 5_005), wrong_turns=4)[told] == 2, "the median may lie below zero"
    assert of((990, -10, 5_005))[told] == 5, "a step counts with all longer ones"
    assert told not in of((0, 0, 0)) and of((0, 0, 0))["resolution: grain, ns"] == 16
    assert fed("resolution").levels() == {}


def test_a_step_that_is_not_seen_refutes() -> None:
    none = {f"ns seen of {us} us": 0.0 for us in (1, 2, 5)}
    assert fed("resolution", *[Turn({"5 us": -5_000}, figures=none)] * 8).outcome == REFUTED


def test_what_is_left_undecided_says_what_it_would_take() -> None:
    one = fed("pacing", *[Turn({"schedule": 0.004 * (-1) ** k}) for k in range(4)])
    one.end()
    (figure,) = one.figures(None)
    assert figure.outcome == UNDECIDED and "more are needed to decide it" in figure.why


def test_turns_without_figures_prove_nothing_and_end() -> None:
    one = Series(TRUTHS["rate"])
    turns = 0
    while one.is_open and turns < MOST_TURNS:
        one.failed("no core in time", 1.0)
        turns += 1
    one.end()
    (figure,) = one.figures(None)
    assert (turns, figure.outcome, figure.why) == (FAILURES, UNDECIDED, "no core in time")


def test_counts_that_contradict_each_other_refute() -> None:
    one = Series(TRUTHS["counts"])
    for _ in range(CONTRADICTIONS):
        one.failed("counts contradict each other", 1.0, contradicts=True)
    assert one.outcome == REFUTED and not one.is_open
    assert [figure.outcome for figure in one.figures(None)] == [REFUTED]


def contradicted(one: Series) -> None:
    one.failed("counts contradict each other", 1.0, contradicts=True)


@pytest.mark.parametrize("number", [1, 2])
def test_contradictions_among_clean_turns_leave_counts_unproven(number: int) -> None:
    clean = Turn({"sent": 0, "received": 0}, frames=200_000)
    one = fed("counts", clean)
    for _ in range(number):
        contradicted(one)
    one.add(clean, 40.0, 0.5)
    one.add(clean, 40.0, 0.5)
    assert one.outcome == UNDECIDED and one.is_open


@pytest.mark.parametrize("name", ["counts", "rate"])
def test_three_contradictions_refute_in_the_certificate_too(name: str) -> None:
    one = fed(name, Turn({"of ours": 0.0}, frames=1_000))
    for _ in range(CONTRADICTIONS):
        contradicted(one)
    one.end()
    (figure,) = one.figures(None)
    assert one.outcome == figure.outcome == REFUTED
    assert figure.why == "counts contradict each other"


def test_a_wrong_turn_and_contradictions_refute_together() -> None:
    one = fed("counts", Turn({"sent": 0, "received": 1}, frames=1_000))
    for _ in range(CONTRADICTIONS - 1):
        contradicted(one)
    outcomes = {figure.quantity: figure.outcome for figure in one.figures(None)}
    assert outcomes == {"sent": UNDECIDED, "received": REFUTED}


def test_what_cannot_be_tried_is_not_tried() -> None:
    one = Series(TRUTHS["one-way"], why_not="no calls")
    assert not one.is_open and [each.outcome for each in one.figures(None)] == [NOT_TRIED]


def test_every_kind_of_port_that_is_offered_can_be_made_in_a_namespace() -> None:
    for kind in PORTS:
        assert kind in switch_for(kind).capabilities.port_kinds
        assert kind in NetnsEnvironment().port_kinds()


def saturated(frames: int, drops: int) -> IntervalEvent:
    """A tenth of a second of a receiver."""
    return IntervalEvent.model_construct(
        t_ns=100_000_000, duration_ns=100_000_000, rx_frames=frames, rx_socket_drops=drops
    )


def test_frames_without_room_at_the_receivers_socket_were_counted_at_the_port() -> None:
    """As on packet rings at full load: they are no fault of the receiver's count."""
    read = [(0, 0), (100_000_000, 10_000)]
    assert saturated_error([saturated(10_000, 0)], read) == pytest.approx(0)
    assert saturated_error([saturated(7_000, 3_000)], read) == pytest.approx(0)
    assert saturated_error([saturated(6_860, 3_000)], read) == pytest.approx(-0.02)
    with pytest.raises(TrialFailed, match="no core"):
        saturated_error([saturated(0, 10_000)], read)


@pytest.mark.parametrize(
    ("duplicates", "lost", "socket_drops", "error"),
    [
        (100, 0, 0, 0),
        (99, 0, 1, 0),  # one of two had no room
        (100, 1, 1, 0),  # one without a copy
        (99, 1, 2, 0),  # both of two
        (98, 0, 1, 1),
        (97, 1, 9, -5),
        (100, 0, 3, -3),
    ],
)
def test_every_copy_is_counted_lost_or_without_room_at_the_socket(
    duplicates: int, lost: int, socket_drops: int, error: int
) -> None:
    assert missing(100, duplicates, lost, socket_drops) == error
