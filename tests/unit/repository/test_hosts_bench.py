"""The tests between hosts: what a busy machine does is repeated and skipped, a trial that fails is
neither."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from switchmark.record import Reconciliation, Record, Verification
from tests.integration.hosts_bench import ATTEMPTS, repeated
from tests.unit.records import synthetic_failure, synthetic_record


def finished(*, noisy: bool) -> Record:
    record = synthetic_record(marks=["disturbed"] if noisy else [])
    verified = Verification.model_construct(passed=not noisy, message="one frame came late")
    agrees = Reconciliation.model_construct(cable_lost=0, unexplained_ratio=0.0)
    return record.model_copy(
        update={
            "verification": verified, "reconciliation": agrees, "engines": [], "vnfs": [],
            "throughput": None,
        }
    )  # fmt: skip


def runs(*each: Record) -> Callable[[], tuple[int, list[Record], str]]:
    coming = iter(each)
    return lambda: (0, [next(coming)], "")


def test_a_clean_run_ends_it() -> None:
    clean = finished(noisy=False)
    assert repeated(runs(finished(noisy=True), clean)) == [clean]


def test_a_machine_that_is_busy_throughout_skips() -> None:
    with pytest.raises(pytest.skip.Exception, match=r"too busy: .*one frame came late"):
        repeated(runs(*[finished(noisy=True)] * ATTEMPTS))


@pytest.mark.parametrize("failures", [1, ATTEMPTS])
def test_a_trial_that_fails_is_no_matter_of_a_busy_machine(failures: int) -> None:
    noisy = [finished(noisy=True)] * (ATTEMPTS - failures)
    failed = [synthetic_failure(message="no such switch")] * failures
    with pytest.raises(pytest.fail.Exception, match=r"in every attempt: .*no such switch"):
        repeated(runs(*failed, *noisy))
