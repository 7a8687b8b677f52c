"""Trials that other programs disturbed are repeated; only the disturbance decides the choice."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from switchmark.errors import STARVED
from switchmark.experiment import retry_disturbed as again
from switchmark.record import Record
from tests.unit.records import synthetic_failure, synthetic_record


def record_with(others_cores: float, number: int = 0) -> Record:
    marks = ["oversubscribed", *(["disturbed"] if others_cores > 0.1 else [])]
    record = synthetic_record(marks=marks, number=number)
    assert record.cpu is not None
    cpu = record.cpu.model_copy(update={"others_cores_used": others_cores, "stolen_cores": 0.0})
    return record.model_copy(update={"cpu": cpu})


def measured(more: int, *records: Record) -> tuple[Record, int]:
    """Return the chosen one of these measurements, and how many were made."""
    remaining: Iterator[Record] = iter(records)
    measurements = []

    def measure() -> Record:
        measurements.append(next(remaining))
        return measurements[-1]

    return again.retry_disturbed(measure, more), len(measurements)


def test_first_undisturbed_measurement_ends_repetitions() -> None:
    chosen, count = measured(
        3, record_with(0.8, 1), record_with(0.4, 2), record_with(0.02, 3), record_with(0.0, 4)
    )
    assert count == 3
    assert chosen.started_at == record_with(0.02, 3).started_at
    assert [attempt.others_cores for attempt in chosen.attempts] == [0.8, 0.4, 0.02]
    assert [attempt.disturbed for attempt in chosen.attempts] == [True, True, False]
    assert chosen.throughput is not None
    assert chosen.attempts[-1].figure == chosen.throughput.forwarded_pps
    assert Record.model_validate_json(chosen.model_dump_json()) == chosen


def test_throttled_trial_is_measured_again() -> None:
    throttled = synthetic_record(marks=["throttled"], number=1)
    chosen, count = measured(3, throttled, record_with(0.02, 2))
    assert (count, chosen.started_at) == (2, record_with(0.02, 2).started_at)


def test_least_disturbed_measurement_is_chosen() -> None:
    chosen, count = measured(2, record_with(0.8, 1), record_with(0.3, 2), record_with(0.5, 3))
    assert (count, chosen.started_at) == (3, record_with(0.3, 2).started_at)
    assert again.is_disturbed(chosen), "it keeps its mark"


@pytest.mark.parametrize(
    ("more", "first"), [(0, record_with(0.8)), (3, record_with(0.0)), (3, synthetic_failure())]
)
def test_undisturbed_and_failed_trials_are_not_repeated(more: int, first: Record) -> None:
    chosen, count = measured(more, first, record_with(0.0))
    assert (chosen, count, chosen.attempts) == (first, 1, [])


def test_starved_trial_is_repeated() -> None:
    """It failed because other programs used the sender's core."""
    message = f"no sample of the sender in tx0 lies wholly in the kept window: {STARVED}; free it"
    starved = synthetic_failure().model_copy(update={"message": message})
    chosen, count = measured(3, starved, record_with(0.0, 2), record_with(0.0, 3))
    assert (count, chosen.started_at) == (2, record_with(0.0, 2).started_at)
    assert [attempt.disturbed for attempt in chosen.attempts] == [True, False]
    assert measured(0, starved)[1] == 1
    chosen, count = measured(1, starved, starved)
    assert (chosen.status, count) == ("failed", 2)


def test_failed_repetition_is_stored_and_not_chosen() -> None:
    chosen, count = measured(3, record_with(0.8, 1), synthetic_failure(message="no core for it"))
    assert (count, chosen.status) == (2, "finished")
    assert [attempt.message for attempt in chosen.attempts] == ["", "no core for it"]
    assert chosen.attempts[1].figure is None


def test_load_of_remote_host_counts() -> None:
    record = record_with(0.0)
    far = SimpleNamespace(cpu=record_with(0.7).cpu, same_machine=False)
    assert again._other_cores(record.model_copy(update={"far_host": far})) == 0.7


def test_second_host_on_this_machine_is_not_counted() -> None:
    """Otherwise the measurement with the least load of the applications would be chosen."""
    cpu = record_with(0.7).cpu
    assert cpu is not None
    cpu = cpu.model_copy(update={"applications_cores_used": 0.5, "switch_cores_used": 0.1})
    far = SimpleNamespace(cpu=cpu, same_machine=True)
    record = record_with(0.8).model_copy(update={"far_host": far})
    assert again._other_cores(record) == pytest.approx(0.2)
