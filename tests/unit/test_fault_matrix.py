"""The fault matrix itself: a seed is a case, and what is left behind or taken away is seen."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.faults import judge, snapshot
from tests.faults.bench import Job
from tests.faults.case import draw
from tests.faults.inflict import FAULTS
from tests.faults.judge import Verdict
from tests.faults.phases import PHASES
from tests.faults.table import Row, table

PAIRS = [(s, e) for s in ("linux-bridge", "ovs-dpdk") for e in ("netns", "lxc")]


def test_a_seed_is_a_case_and_all_faults_and_phases_are_drawn() -> None:
    cases = [draw(seed, PAIRS) for seed in range(2000)]
    assert cases == [draw(seed, PAIRS) for seed in range(2000)]
    assert {case.fault.name for case in cases} == {fault.name for fault in FAULTS}
    assert {case.phase for case in cases} == set(PHASES)
    assert {(case.switch, case.environment) for case in cases} == set(PAIRS)
    assert all(case.phase in (case.fault.phases or PHASES) for case in cases)


def test_what_is_more_or_less_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "FOLDERS", (str(tmp_path),))
    (tmp_path / "a").write_text("x")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "b").write_text("x")
    before = {"files": snapshot._files([tmp_path / "ours"])}
    (tmp_path / "a").unlink()
    (tmp_path / "c").mkdir()
    after = {"files": snapshot._files([tmp_path / "ours"])}
    assert snapshot.differences(before, after) == [
        f"files: left behind: {tmp_path}/c",
        f"files: taken away: {tmp_path}/a",
    ]
    assert snapshot.differences(before, before) == []


def test_what_is_told_between_processes_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Row.of(Verdict(draw(seed, PAIRS), met=True, trials_kept=1, findings=["lost"] * (seed == 7)))
        for seed in (7, 3)
    ]
    assert [Row(**json.loads(json.dumps(asdict(row)))) for row in rows] == rows
    table(rows)
    assert (
        "2 cases, seeds 3 to 7; 2 finished trials kept through faults; 1 cases with findings"
        in (capsys.readouterr().out)
    )


def test_a_machine_without_sshd_has_the_cases_of_a_far_host_and_nothing_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "missing", lambda: "no sshd here")
    monkeypatch.setattr(judge, "_sh", lambda *_words: None)
    case = next(c for c in (draw(seed, PAIRS) for seed in count()) if c.fault.name == "SSH cut")
    with judge._Rig(tmp_path / "case", case) as rig:
        assert rig.hosts is None
        assert "location: local" in rig.places.campaign.read_text()
        job = cast(Job, SimpleNamespace(hosts=rig.hosts))
        assert case.fault.inflict(job, random.Random(1)) is None


def test_a_group_that_is_busy_at_first_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / "faults-1"
    group.mkdir()
    procs = group / "cgroup.procs"
    procs.write_text("")  # (a folder with a file in it cannot be removed, as a group that is busy)
    monkeypatch.setattr(judge.time, "sleep", lambda _s: procs.rename(tmp_path / "gone"))
    monkeypatch.setattr(Path, "read_text", lambda _path: "")
    judge._remove_group(group)
    assert not group.exists()
