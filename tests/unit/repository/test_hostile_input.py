"""Generated input for each reader of what comes from outside: some hundred of each, the same every
time (`tools/fuzz --python` tries others for as long as it is told)."""

from __future__ import annotations

import pytest

from tests.hostile import READERS, Reader, attempt, explore


@pytest.mark.parametrize("name", READERS)
def test_input_is_a_value_or_the_documented_error(name: str) -> None:
    explore(name, 60)


def test_any_other_error_is_a_finding() -> None:
    def broken(value: str) -> str:
        return value[0]

    with pytest.raises(IndexError):
        attempt(Reader(broken, READERS["notation"].given, (ValueError,)), "")
