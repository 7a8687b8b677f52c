"""Reading of processes."""

from __future__ import annotations

import pytest

from switchmark.host.kernel import procfs


@pytest.mark.parametrize(
    ("text", "pid"),
    [("4711\n", 4711), ("\x1f4711\n", 4711), ("", None), ("0\n", None), ("²", None), ("-1", None),
     ("99999999", None)],
)  # fmt: skip
def test_process_id_is_parsed_or_none(text: str, pid: int | None) -> None:
    assert procfs.parse_pid(text) == pid
