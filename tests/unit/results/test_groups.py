"""Groups of records: whole, in the order of what was asked, across the borders of slices."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from switchmark.model.parameter_table import PARAMETERS
from switchmark.results import groups as under_test
from switchmark.results.groups import Group, groups


def table(records: list[dict[str, Any]]) -> pl.DataFrame:
    """A table of results with these values, the same in everything else."""
    usual: dict[str, Any] = dict.fromkeys((*PARAMETERS, "asked_io", "asked_connect_mode"))
    usual |= {"asked_port_kind": None, "status": "finished", "started_at": "2025", "burst": 1}
    return pl.DataFrame([usual | record for record in records], infer_schema_length=None)


def told(found: Group) -> tuple[list[int], list[int]]:
    """Repetitions of the finished and of the failed."""
    return list(found.finished.column("repetition")), list(found.failed.column("repetition"))


def flat(frame: pl.DataFrame) -> list[Group]:
    """The groups of all slices."""
    return [one for together in groups(frame) for one in together]


@pytest.mark.parametrize("slice_rows", [1, 3, 4096])
def test_groups_are_whole_and_in_order(monkeypatch: pytest.MonkeyPatch, slice_rows: int) -> None:
    monkeypatch.setattr(under_test, "_SLICE_ROWS", slice_rows)
    frame = table(
        [{"packet_size_bytes": 64 * size, "repetition": n} for n in (2, 0, 1) for size in (2, 3, 1)]
    )
    found = flat(frame)
    assert [one.finished.first("packet_size_bytes") for one in found] == [64, 128, 192]
    assert [told(one) for one in found] == [([0, 1, 2], [])] * 3


def test_nothing_asked_is_a_value_of_its_own() -> None:
    found = flat(table([{"rate_pps": rate, "repetition": 0} for rate in (5, None, 5, None)]))
    assert [one.finished.column("rate_pps") for one in found] == [[None, None], [5, 5]]


def test_failures_join_the_first_that_asked_the_same_and_ways_are_kept_apart() -> None:
    frame = table(
        [{"repetition": 0, "io": "raw"}, {"repetition": 1, "status": "failed"},
         {"repetition": 2, "io": "udp"}, {"repetition": 3, "io": "raw"}]
    )  # fmt: skip
    assert [told(one) for one in flat(frame)] == [([0, 3], [1]), ([2], [])]


def test_failures_alone_are_a_group() -> None:
    (found,) = flat(table([{"repetition": n, "status": "failed"} for n in (1, 0)]))
    assert told(found) == ([], [0, 1])
    assert not found.finished.has("repetition")


def test_an_empty_table_has_no_groups() -> None:
    assert flat(table([{"repetition": 0}]).clear()) == []
