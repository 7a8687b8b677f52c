"""The tests between hosts: trials that a busy machine disturbed are repeated or skipped, failed
trials are not."""

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


def test_clean_run_ends_the_attempts() -> None:
    clean = finished(noisy=False)
    assert repeated(runs(finished(noisy=True), clean)) == [clean]


def test_permanently_busy_machine_skips() -> None:
    with pytest.raises(pytest.skip.Exception, match=r"too busy: .*one frame came late"):
        repeated(runs(*[finished(noisy=True)] * ATTEMPTS))


@pytest.mark.parametrize("failures", [1, ATTEMPTS])
def test_failed_trial_is_not_skipped(failures: int) -> None:
    noisy = [finished(noisy=True)] * (ATTEMPTS - failures)
    failed = [synthetic_failure(message="no such switch")] * failures
    with pytest.raises(pytest.fail.Exception, match=r"in every attempt: .*no such switch"):
        repeated(runs(*failed, *noisy))
