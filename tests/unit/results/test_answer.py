"""The order of contenders in a comparison result."""

from __future__ import annotations

from switchmark.record.metric import method_metric
from switchmark.results.answer import (
    Lead,
    LeadRatio,
    LeadVerdict,
    RankedContender,
    _by_leads,
    metrics_of,
)
from switchmark.results.blocks import Observed
from tests.unit.records import synthetic_trial

TRIAL = synthetic_trial()


def ranked(*names: str) -> list[RankedContender]:
    return [RankedContender(name, TRIAL, 1.0, None, None, 5) for name in names]


def lead(ahead: str, behind: str, verdict: LeadVerdict, pairs: int = 8) -> Lead:
    ratio = LeadRatio(1.1, 0.9, 1.3, pairs, verdict)
    return Lead(ahead, behind, verdict, (ratio,), pairs, None)


def order(*leads: Lead) -> list[str]:
    """Return the order of a, b and c, which have falling typical figures."""
    return [one.contender for one in _by_leads(ranked("a", "b", "c"), leads)]


def test_order_without_pairs_is_by_typical_figures() -> None:
    assert order(Lead("a", "b", LeadVerdict.UNDECIDED, (), 1, None)) == ["a", "b", "c"]


def test_first_contender_has_a_ratio_of_at_least_one() -> None:
    assert order(lead("b", "a", LeadVerdict.UNDECIDED)) == ["b", "a", "c"]


def test_three_pairs_without_a_decision_do_not_change_the_order() -> None:
    assert order(lead("b", "a", LeadVerdict.UNDECIDED, pairs=3)) == ["a", "b", "c"]


def test_proven_lead_wins_against_a_circle_of_open_leads() -> None:
    circle = [
        lead("c", "a", LeadVerdict.AHEAD),
        lead("a", "b", LeadVerdict.UNDECIDED),
        lead("b", "c", LeadVerdict.UNDECIDED),
    ]
    assert order(*circle).index("c") < order(*circle).index("a")


def test_lower_bounds_of_searches_are_not_compared() -> None:
    """A search that ended at its highest load knows nothing about the limit above it."""
    ndr, bound = (method_metric(name, "pps") for name in ("NDR", "NDR at least"))
    fields = {"part": 0, "start_s": 0.0, "end_s": 1.0}
    observed = [
        Observed(trial=synthetic_trial(), block=block, figures=figures, **fields)
        for block, figures in enumerate(({bound: 2e6}, {ndr: 1e6}))
    ]
    assert metrics_of(observed) == [ndr]
    assert metrics_of(observed[:1]) == []
