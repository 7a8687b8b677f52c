"""`run --resume` continues with the arguments of the first start."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.cli import run
from switchmark.cli.main import run as run_command
from switchmark.cli.measure import CommandRequest
from switchmark.model.campaign import CampaignDefinition
from switchmark.results.run_directory import Run


def begin(results: Path, overrides: list[str]) -> None:
    Run.create(
        results,
        campaign="quick",
        campaign_text="",
        definition={},
        settings={"set": overrides},
        host={},
    ).close()


def resumed(results: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]) -> list[str]:
    """The overrides that a resumed run plans with."""
    observed: list[CommandRequest] = []

    def measure(_campaign: CampaignDefinition, _there: object, request: CommandRequest) -> int:
        observed.append(request)
        return 0

    monkeypatch.setattr(run, "measure", measure)
    run.command("quick", given, resume=True, results=results)
    return observed[0].overrides


def test_the_first_start_s_settings_are_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path, ["duration=3s", "repetitions=1"])
    assert resumed(tmp_path, monkeypatch, []) == ["duration=3s", "repetitions=1"]
    assert "--set duration=3s --set repetitions=1" in capsys.readouterr().err


def test_new_settings_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path, ["duration=3s"])
    assert resumed(tmp_path, monkeypatch, ["duration=4s"]) == ["duration=4s"]


def test_more_budget_keeps_the_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--resume --set budget=4m` planned other trials than the first start."""
    begin(tmp_path, ["duration=3s", "budget=1m"])
    assert resumed(tmp_path, monkeypatch, ["budget=4m"]) == ["duration=3s", "budget=4m"]


def test_without_an_engine_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise every trial of a campaign would fail for this reason, one after the other."""
    monkeypatch.setattr("switchmark.experiment.prepare.check_available", lambda _steps: None)
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", str(tmp_path / "nothing"))
    results = tmp_path / "results"
    assert run_command(["trial", "linux-bridge", "--results", str(results)]) == 3
    assert "not an executable file" in capsys.readouterr().err
    assert not results.exists()
