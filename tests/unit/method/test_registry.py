"""Methods are found by their files, and have the properties that other packages need."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from switchmark import method as package
from switchmark.cli.main import run
from switchmark.errors import SwitchmarkError
from switchmark.method.registry import METHODS, method_names, usual_time_s
from switchmark.model.trial import Trial
from switchmark.plugins import PluginRegistry


def trial(name: str, **more: object) -> Trial:
    return Trial.model_validate(
        {"dimension": "throughput", "switch": "x", "packet_size_bytes": 64, "method": name,
         "duration_s": 2.0, **more}
    )  # fmt: skip


def test_every_file_is_a_method_with_its_name() -> None:
    files = {
        path.stem.replace("_", "-")
        for folder in package.__path__
        for path in Path(folder).glob("*.py")
        if path.stem not in ("__init__", "registry")
    }
    assert set(METHODS) == files
    assert {METHODS[name].name for name in files} == files
    assert method_names() == ("plain", *sorted(files))


def test_usual_time_is_limited_by_budget() -> None:
    assert usual_time_s(trial("plain")) == 2.0
    assert usual_time_s(trial("r-plus")) == 1.0 + (9 + 3) * 2.0
    assert usual_time_s(trial("ndr-pdr", goals="quick")) == 34.0
    assert usual_time_s(trial("ndr-pdr", goals="quick", budget_s=7.0)) == 7.0


def test_list_names_every_method_with_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "methods", "--json"]) == 0
    rows = {
        row["name"]: row["description"] for row in json.loads(capsys.readouterr().out)["methods"]
    }
    assert {name: method.meaning for name, method in METHODS.items()}.items() <= rows.items()
    assert set(rows) == set(method_names())


def test_compared_figures_have_unique_names() -> None:
    names = [metric.name for method in METHODS.values() for metric in method.compared]
    assert len(names) == len(set(names))


def test_file_without_method_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("invented_package")
    module.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "invented_package", module)
    (tmp_path / "half_done.py").write_text("")
    folder = PluginRegistry("invented_package", METHODS._take)
    assert list(folder) == ["half-done"]
    assert "registry" not in folder
    with pytest.raises(KeyError):
        folder["absent"]
    with pytest.raises(SwitchmarkError, match="holds no METHOD with name 'half-done'"):
        folder["half-done"]
