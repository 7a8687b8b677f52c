"""A record holds the figures that the trial made, as they are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from switchmark.record import Figures
from switchmark.trial.recording import as_failed, made_record
from switchmark.trial.stopwatch import Stopwatch
from tests.unit.records import synthetic_record, synthetic_trial


def told() -> tuple[Figures, dict[str, Any]]:
    """The figures of a finished latency trial, and the other facts of it."""
    facts = dict(synthetic_record(synthetic_trial(dimension="latency", rate_pps=9)))
    figures = Figures(**{name: facts.pop(name) for name in Figures.model_fields})
    return figures, facts


def test_the_figures_of_a_trial_are_those_of_its_record() -> None:
    figures, facts = told()
    record = made_record(figures, facts, datetime.now(UTC), Stopwatch())
    assert figures.latency is not None
    assert record.latency is figures.latency, "copied on its way"


def test_a_failed_trial_has_no_figures() -> None:
    figures, facts = told()
    failed = as_failed(facts, "the switch died")
    record = made_record(figures, failed, datetime.now(UTC), Stopwatch())
    assert (record.status, record.message) == ("failed", "the switch died")
    assert all(getattr(record, name) is None for name in Figures.model_fields)
    assert record.verdict is None and record.limit is None and record.cpu is None
