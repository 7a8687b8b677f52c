"""The file by which applications take turns is given to those that do, and to no others."""

from __future__ import annotations

from switchmark.environment.support.batons import with_baton, without_baton

TAKES_TURNS = ["sender", "--idle", "baton", "--session"]
POLLS = ["sender", "--idle", "poll", "--session"]


def test_who_takes_turns_is_told_the_file() -> None:
    assert with_baton(TAKES_TURNS, "/run/batons") == [*TAKES_TURNS, "--baton", "/run/batons/baton"]
    assert with_baton(POLLS, "/run/batons") == POLLS


def test_with_a_kernel_of_its_own_it_yields() -> None:
    assert without_baton(TAKES_TURNS) == ["sender", "--idle", "yield", "--session"]
    assert without_baton(POLLS) == POLLS
