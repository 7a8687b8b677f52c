"""The samples of a soak: bench, agents, engines and objects of the kernel."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.faults import held, one_trial, soak
from tests.faults.bench import Job


def job(tmp_path: Path, engines: list[int], session: str = "") -> Job:
    """Return a bench that is this process, with such engines."""
    return cast(
        Job,
        SimpleNamespace(
            process=SimpleNamespace(pid=os.getpid()), hosts=None, session=session,
            places=SimpleNamespace(state=tmp_path), engines=lambda: engines,
        ),
    )  # fmt: skip


def test_engines_are_counted_beside_the_bench(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "100"]) as engine:
        try:
            resources = held.held_resources(job(tmp_path, [engine.pid, 2**22 + 1]), tmp_path)
        finally:
            engine.kill()
    assert resources[held.ENGINES] > 0 and resources["memory of the bench (MB)"] > 10
    assert resources["memory of agents (MB)"] == 0
    assert set(held.COUNTS) <= set(resources)
    assert resources["mounts"] > 0 and resources["devices"] >= 1


def test_shared_files_count_except_those_of_the_soak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "SHARED", (str(tmp_path).lstrip("/"),))
    own_folder = tmp_path / "ours"
    own_folder.mkdir()
    (own_folder / "a").write_text("x")
    assert held._shared_files(os.getpid(), own_folder) == 0
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_text("x")
    assert held._shared_files(os.getpid(), own_folder) == 2


def test_growth_and_decreasing_counters_are_reported() -> None:
    steady = [(100.0, 20.0, 1000 * at) for at in range(100)]
    assert one_trial.judged(steady) == []
    grows = [(100.0 + at, 20.0, 1000 * at) for at in range(100)]
    assert one_trial.judged(grows) == ["grew: memory of the bench (MB)"]
    engines = [(100.0, 20.0 + at, 1000 * at) for at in range(100)]
    assert one_trial.judged(engines) == ["grew: memory of engines (MB)"]
    back = [(100.0, 20.0, 2**32 - 50 + at if at < 50 else at) for at in range(100)]
    assert one_trial.judged(back) == ["a count of frames went back"]
    assert one_trial.judged(steady[:10])[0].startswith("too few samples")


def test_objects_of_the_next_trial_are_not_growth(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A sample is taken between two trials, or after the start of the next."""
    between = {"descriptors": 13.0, soak.LEDGER: 0.0}
    within = between | {"descriptors": 18.0}
    calm = [between] * soak.WARM_UP + [between, within] * soak.SPAN
    late = calm[: -soak.SPAN] + [between] + [within] * (soak.SPAN - 1)
    assert soak.table(late) == []
    assert soak.table(calm[: -soak.SPAN] + [within] * soak.SPAN) == ["descriptors"]
    assert "grew: descriptors" in capsys.readouterr().out


def test_simultaneous_records_give_one_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bench's time is divided among the records."""
    trials = tmp_path / "run" / "trials"
    trials.mkdir(parents=True)
    for name in "abc":
        (trials / f"{name}.json").write_text("{}")
    bench = SimpleNamespace(places=SimpleNamespace(results=tmp_path), engines=list, running=False)
    monkeypatch.setattr(soak, "_look", lambda *_: {held.SPENT: 6.0})
    samples, stored = soak._watch(cast(Job, bench), 3, tmp_path)
    assert stored == 3 and samples == [{soak.ENGINES: 0.0, soak.SPENT_EACH: 2.0}]
