"""The path of the lock file is an option of applications that take turns, and of no others."""

from __future__ import annotations

from switchmark.environment.support.batons import with_baton, without_baton

TAKES_TURNS = ["sender", "--idle", "baton", "--session"]
POLLS = ["sender", "--idle", "poll", "--session"]


def test_applications_that_take_turns_get_the_lock_file() -> None:
    assert with_baton(TAKES_TURNS, "/run/batons") == [*TAKES_TURNS, "--baton", "/run/batons/baton"]
    assert with_baton(POLLS, "/run/batons") == POLLS


def test_applications_with_a_separate_kernel_yield() -> None:
    assert without_baton(TAKES_TURNS) == ["sender", "--idle", "yield", "--session"]
    assert without_baton(POLLS) == POLLS
