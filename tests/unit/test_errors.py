"""Errors: the reason and the remedy, apart and in the printed message."""

from __future__ import annotations

import pickle

import pytest

from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.model.capabilities import unavailable_for


def test_error_prints_reason_and_remedy() -> None:
    error = UsageError("rate: 0 is not a rate", remedy="use 1 or more")
    assert (error.reason, error.remedy) == ("rate: 0 is not a rate", "use 1 or more")
    assert str(error) == "rate: 0 is not a rate; use 1 or more"


def test_error_without_remedy_prints_the_reason() -> None:
    error = SwitchmarkError("it failed; nothing can be done")
    assert error.reason == str(error) == "it failed; nothing can be done" and not error.remedy


def test_error_keeps_its_fields_in_another_process() -> None:
    error = pickle.loads(pickle.dumps(UnavailableError("no root", remedy="use sudo")))
    assert (error.reason, error.remedy, str(error)) == ("no root", "use sudo", "no root; use sudo")


@pytest.mark.parametrize("remedy", ["", "apt install kmod"])
def test_availability_has_the_remedy_of_the_error(remedy: str) -> None:
    """The reason may itself contain a semicolon: the text is not split."""
    answer = unavailable_for(UnavailableError("a; b", remedy=remedy))
    assert (answer.available, answer.reason, answer.remedy) == (False, "a; b", remedy or None)
