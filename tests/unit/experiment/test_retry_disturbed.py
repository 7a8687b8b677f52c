"""Trials that other programs disturbed are measured again, and chosen by that alone."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from switchmark.errors import STARVED
from switchmark.experiment import retry_disturbed as again
from switchmark.record import Record
from tests.unit.records import synthetic_failure, synthetic_record


def one(others_cores: float, number: int = 0) -> Record:
    marks = ["oversubscribed", *(["disturbed"] if others_cores > 0.1 else [])]
    record = synthetic_record(marks=marks, number=number)
    assert record.cpu is not None
    cpu = record.cpu.model_copy(update={"others_cores_used": others_cores, "stolen_cores": 0.0})
    return record.model_copy(update={"cpu": cpu})


def measured(more: int, *records: Record) -> tuple[Record, int]:
    """What is kept of such measurements in turn, and how many were made."""
    coming: Iterator[Record] = iter(records)
    made = []

    def measure() -> Record:
        made.append(next(coming))
        return made[-1]

    return again.retry_disturbed(measure, more), len(made)


def test_the_first_undisturbed_one_ends_it() -> None:
    kept, count = measured(3, one(0.8, 1), one(0.4, 2), one(0.02, 3), one(0.0, 4))
    assert count == 3
    assert kept.started_at == one(0.02, 3).started_at
    assert [attempt.others_cores for attempt in kept.attempts] == [0.8, 0.4, 0.02]
    assert [attempt.disturbed for attempt in kept.attempts] == [True, True, False]
    assert kept.throughput is not None
    assert kept.attempts[-1].figure == kept.throughput.forwarded_pps
    assert Record.model_validate_json(kept.model_dump_json()) == kept


def test_a_throttled_one_is_measured_again() -> None:
    throttled = synthetic_record(marks=["throttled"], number=1)
    kept, count = measured(3, throttled, one(0.02, 2))
    assert (count, kept.started_at) == (2, one(0.02, 2).started_at)


def test_else_the_least_disturbed_is_kept_whatever_its_figure() -> None:
    kept, count = measured(2, one(0.8, 1), one(0.3, 2), one(0.5, 3))
    assert (count, kept.started_at) == (3, one(0.3, 2).started_at)
    assert again.is_disturbed(kept), "which stays marked"


@pytest.mark.parametrize(
    ("more", "first"), [(0, one(0.8)), (3, one(0.0)), (3, synthetic_failure())]
)
def test_others_are_measured_once(more: int, first: Record) -> None:
    kept, count = measured(more, first, one(0.0))
    assert (kept, count, kept.attempts) == (first, 1, [])


def test_a_starved_trial_is_repeated_and_not_kept() -> None:
    """It failed since its sender had no core: that is the state of the machine, not a figure."""
    words = f"no sample of the sender in tx0 lies wholly in the kept window: {STARVED}; free it"
    starved = synthetic_failure().model_copy(update={"message": words})
    kept, count = measured(3, starved, one(0.0, 2), one(0.0, 3))
    assert (count, kept.started_at) == (2, one(0.0, 2).started_at)
    assert [attempt.disturbed for attempt in kept.attempts] == [True, False]
    assert measured(0, starved)[1] == 1
    kept, count = measured(1, starved, starved)
    assert (kept.status, count) == ("failed", 2)


def test_a_repeat_that_fails_is_told_and_not_kept() -> None:
    kept, count = measured(3, one(0.8, 1), synthetic_failure(message="no core for it"))
    assert (count, kept.status) == (2, "finished")
    assert [attempt.message for attempt in kept.attempts] == ["", "no core for it"]
    assert kept.attempts[1].figure is None


def test_the_other_host_counts_too() -> None:
    record = one(0.0)
    far = SimpleNamespace(cpu=one(0.7).cpu, same_machine=False)
    assert again._others(record.model_copy(update={"far_host": far})) == 0.7


def test_programs_of_a_second_host_on_this_machine_are_no_others() -> None:
    """Else the measurement in which the other host's applications worked least would be kept."""
    there = one(0.7).cpu
    assert there is not None
    there = there.model_copy(update={"applications_cores_used": 0.5, "switch_cores_used": 0.1})
    far = SimpleNamespace(cpu=there, same_machine=True)
    record = one(0.8).model_copy(update={"far_host": far})
    assert again._others(record) == pytest.approx(0.2)
