"""Groups of records: complete, in the order of the parameters, also across slices."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from switchmark.model.parameter_table import PARAMETERS
from switchmark.results import groups as under_test
from switchmark.results.groups import Group, groups


def table(records: list[dict[str, Any]]) -> pl.DataFrame:
    """Return a table of results with these values, which are equal in all other columns."""
    usual: dict[str, Any] = dict.fromkeys((*PARAMETERS, "asked_io", "asked_connect_mode"))
    usual |= {"asked_port_kind": None, "status": "finished", "started_at": "2025", "burst": 1}
    return pl.DataFrame([usual | record for record in records], infer_schema_length=None)


def repetitions_of(group: Group) -> tuple[list[int], list[int]]:
    """Return the repetitions of the finished and of the failed records."""
    return list(group.finished.column("repetition")), list(group.failed.column("repetition"))


def flat(frame: pl.DataFrame) -> list[Group]:
    """Return the groups of all slices."""
    return [group for slice_groups in groups(frame) for group in slice_groups]


@pytest.mark.parametrize("slice_rows", [1, 3, 4096])
def test_groups_are_whole_and_in_order(monkeypatch: pytest.MonkeyPatch, slice_rows: int) -> None:
    monkeypatch.setattr(under_test, "_SLICE_ROWS", slice_rows)
    frame = table(
        [{"packet_size_bytes": 64 * size, "repetition": n} for n in (2, 0, 1) for size in (2, 3, 1)]
    )
    found = flat(frame)
    assert [one.finished.first("packet_size_bytes") for one in found] == [64, 128, 192]
    assert [repetitions_of(one) for one in found] == [([0, 1, 2], [])] * 3


def test_unset_parameter_is_a_separate_value() -> None:
    found = flat(table([{"rate_pps": rate, "repetition": 0} for rate in (5, None, 5, None)]))
    assert [one.finished.column("rate_pps") for one in found] == [[None, None], [5, 5]]


def test_failures_join_the_first_group_and_modes_stay_apart() -> None:
    frame = table(
        [{"repetition": 0, "io": "raw"}, {"repetition": 1, "status": "failed"},
         {"repetition": 2, "io": "udp"}, {"repetition": 3, "io": "raw"}]
    )  # fmt: skip
    assert [repetitions_of(one) for one in flat(frame)] == [([0, 3], [1]), ([2], [])]


def test_failures_alone_are_a_group() -> None:
    (found,) = flat(table([{"repetition": n, "status": "failed"} for n in (1, 0)]))
    assert repetitions_of(found) == ([], [0, 1])
    assert not found.finished.has("repetition")


def test_an_empty_table_has_no_groups() -> None:
    assert flat(table([{"repetition": 0}]).clear()) == []
