"""A record has the figures that the trial made, as they are."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest

from switchmark.record import Figures, Record
from switchmark.trial.recording import (
    JudgedFacts,
    MeasuredFacts,
    PlannedFacts,
    RecordDraft,
    RequestedFacts,
    RunFacts,
)
from tests.unit.records import synthetic_record, synthetic_trial


def part_of(kind: Any, record: Record, **others: Any) -> Any:
    names = [one.name for one in fields(kind) if one.name not in others]
    return kind(**{name: getattr(record, name) for name in names}, **others)


def finished_draft() -> RecordDraft:
    """The parts of a finished latency trial."""
    record = synthetic_record(synthetic_trial(dimension="latency", rate_pps=9))
    begun = datetime.now(UTC)
    draft = RecordDraft(RequestedFacts.of(record.trial, "unit", "abc123", begun), begun)
    draft.planned = part_of(PlannedFacts, record)
    judged = part_of(JudgedFacts, record)
    draft.measured = part_of(MeasuredFacts, record, judged=judged)
    draft.ran = part_of(RunFacts, record)
    draft.figures = Figures(**{name: getattr(record, name) for name in Figures.model_fields})
    return draft


@pytest.mark.parametrize(
    "part", [RequestedFacts, PlannedFacts, JudgedFacts, MeasuredFacts, RunFacts]
)
def test_parts_have_the_names_of_the_record(part: Any) -> None:
    assert {one.name for one in fields(part)} - {"judged"} <= set(Record.model_fields)


def test_record_has_the_figures_of_the_trial() -> None:
    draft = finished_draft()
    record = draft.finish()
    assert draft.figures.latency is not None
    assert record.latency is draft.figures.latency, "copied on its way"
    assert record.status == "finished" and record.verdict is not None


def test_failed_trial_has_no_figures() -> None:
    draft = finished_draft()
    draft.failures.append("the switch died")
    record = draft.finish()
    assert (record.status, record.message) == ("failed", "the switch died")
    assert all(getattr(record, name) is None for name in Figures.model_fields)
    assert record.verdict is None and record.limit is None and record.cpu is None
    assert record.engines == finished_draft().finish().engines, "other facts stay"


def test_fact_that_cannot_be_read_fails_the_trial() -> None:
    draft = finished_draft()

    def broken() -> list[str]:
        raise OSError("no such file")

    assert draft.fact("vnfs", broken, []) == []
    assert draft.finish().message == "vnfs cannot be recorded: no such file"


def test_contradictory_figures_are_left_out() -> None:
    draft = finished_draft()
    draft.figures = Figures()
    record = draft.finish()
    assert record.status == "failed" and record.verdict is None
    assert record.message.startswith("the figures contradict each other: ")
