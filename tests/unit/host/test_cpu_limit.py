"""A CPU quota whose group exists already, or cannot take the processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.host.cores import cpu_limit
from switchmark.host.cores.cpu_limit import CpuLimit, Hierarchy
from switchmark.host.host import Session
from switchmark.host.kernel import cgroups


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder instead of the hierarchy of control groups."""
    (tmp_path / "cgroup.subtree_control").write_text("cpu")
    monkeypatch.setattr(cpu_limit, "find_hierarchy", lambda: Hierarchy(2, tmp_path))
    return tmp_path


def test_leftover_group_gets_the_quota_of_this_trial(root: Path, session: Session) -> None:
    group = root / f"sm{session.id}-limit"
    group.mkdir()
    (group / "cpu.max").write_text("25000 100000")
    limit = CpuLimit.impose(session, [], 0.5)
    assert (group / "cpu.max").read_text() == "50000 100000" and limit.in_force()


def test_group_that_takes_no_process_is_removed(
    root: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []
    monkeypatch.setattr(cgroups, "remove_tree", removed.append)
    group = root / f"sm{session.id}-limit"
    monkeypatch.setattr(CpuLimit, "_set", lambda *_: (group / "cgroup.procs").mkdir())
    with pytest.raises(IsADirectoryError):
        CpuLimit.impose(session, [1], 0.5)
    assert removed == [group] and session.ledger.outstanding() == []
