"""Errors: the reason and the remedy, apart and in the printed message."""

from __future__ import annotations

import pickle

import pytest

from switchmark.errors import Refusal, SwitchmarkError, UnavailableError, UsageError
from switchmark.model.capabilities import unavailable_for


def test_error_prints_reason_and_remedy() -> None:
    error = UsageError("rate: 0 is not a rate", remedy="use 1 or more")
    assert (error.refusal.reason, error.refusal.remedy) == (
        "rate: 0 is not a rate",
        "use 1 or more",
    )
    assert str(error) == "rate: 0 is not a rate; use 1 or more"


def test_error_without_remedy_prints_the_reason() -> None:
    error = SwitchmarkError("it failed; nothing can be done")
    assert error.refusal.reason == str(error) == "it failed; nothing can be done"
    assert not error.refusal.remedy


def test_error_keeps_its_fields_in_another_process() -> None:
    error = pickle.loads(pickle.dumps(UnavailableError("no root", remedy="use sudo")))
    assert error.refusal == Refusal("no root", "use sudo") and str(error) == "no root; use sudo"


@pytest.mark.parametrize("remedy", ["", "apt install kmod"])
def test_availability_has_the_remedy_of_the_error(remedy: str) -> None:
    """The reason may itself contain a semicolon: the text is not split."""
    answer = unavailable_for(UnavailableError("a; b", remedy=remedy))
    assert (answer.available, answer.reason, answer.remedy) == (False, "a; b", remedy or None)


def test_refusal_prints_its_alternatives_behind_the_remedy() -> None:
    refusal = Refusal("no root", "use sudo", instead="leave sriov out", key="switch")
    assert str(refusal) == "no root; use sudo, or leave sriov out"
    assert (
        str(refusal.about("switch sriov: "))
        == "switch sriov: no root; use sudo, or leave sriov out"
    )
    assert refusal.at("nics").key == "nics"


def test_refusal_clause_puts_the_remedy_in_parentheses() -> None:
    assert Refusal("no root", "use sudo").clause == "no root (remedy: use sudo)"
    assert Refusal("no root (EPERM)", "use sudo").clause == "no root (EPERM; remedy: use sudo)"
    assert Refusal("no root").clause == "no root"
