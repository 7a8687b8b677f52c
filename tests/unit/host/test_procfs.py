"""Reading of processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchmark.host.kernel import procfs


@pytest.mark.parametrize(
    ("text", "pid"),
    [("4711\n", 4711), ("\x1f4711\n", 4711), ("", None), ("0\n", None), ("²", None), ("-1", None),
     ("99999999", None)],
)  # fmt: skip
def test_process_id_is_parsed_or_none(text: str, pid: int | None) -> None:
    assert procfs.parse_pid(text) == pid


def test_memory_of_processes_is_read_or_0() -> None:
    """A process that has ended has no memory, and a file is not a BPF map."""
    own_pid = os.getpid()
    assert procfs.resident_kib([own_pid]) > 1000
    assert procfs.resident_kib([own_pid, own_pid]) >= 2 * 1000
    assert procfs.hugepages_kib([own_pid]) == 0
    ended = 2**22 + 1  # above the largest PID of Linux
    assert procfs.resident_kib([ended]) == procfs.hugepages_kib([ended]) == 0
    with Path("/dev/null").open("rb") as file:
        assert procfs.map_kib(file.fileno()) is None
