"""Generated input for each reader of external data: some hundred of each, the same every time
(`tools/fuzz --python` generates other input, for any time)."""

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
