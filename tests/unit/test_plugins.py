"""Plugins in a folder are found by their files, also in an archive."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import SwitchmarkError
from switchmark.plugins import PluginRegistry, load_class
from switchmark.scenario.registry import PLACES
from switchmark.switch.registry import SWITCHES


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a unique name, since modules are imported once."""
    name = f"room_{abs(hash(tmp_path)):x}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "registry.py").write_text("")
    (folder / "support").mkdir()
    (folder / "support" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


@pytest.mark.parametrize("found", [SWITCHES, ENVIRONMENTS])
def test_names_are_those_of_files_and_classes(found: PluginRegistry[Any]) -> None:
    assert list(found) == sorted(found)
    assert {name: make().name for name, make in found.items()} == {name: name for name in found}
    assert len(found) == len(list(found)) and "registry" not in found and "support" not in found


def test_scenarios_are_files() -> None:
    assert set(PLACES) == {"loopback", "p2p", "p2v", "pairs", "v2p", "v2v"}


def test_a_name_costs_no_import(plugins: Path) -> None:
    (plugins / "dear_one.py").write_text("raise RuntimeError('imported')")
    found = PluginRegistry(plugins.name, load_class)
    assert list(found) == ["dear-one"] and "dear-one" in found
    with pytest.raises(RuntimeError, match="imported"):
        found["dear-one"]


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("class A:\n  name = 'other'", 0), ("class A:\n  name = 'a'\nclass B(A): pass", 2),
     ("from switchmark.switch.direct import Direct", 0)],
)  # fmt: skip
def test_file_without_its_class_is_reported(plugins: Path, text: str, count: int) -> None:
    (plugins / "a.py").write_text(text)
    with pytest.raises(SwitchmarkError, match=rf"{plugins.name}\.a: {count} classes have name"):
        PluginRegistry(plugins.name, load_class)["a"]


def test_a_folder_in_an_archive_is_read(plugins: Path, tmp_path: Path) -> None:
    (plugins / "first_one.py").write_text("class First:\n  name = 'first-one'")
    packed = tmp_path / "held.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in plugins.rglob("*.py"):
            archive.write(path, path.relative_to(tmp_path))
    script = (
        f"import sys; sys.path.insert(0, {str(packed)!r})\n"
        "from switchmark.plugins import PluginRegistry, load_class\n"
        f"found = PluginRegistry({plugins.name!r}, load_class)\n"
        "print(*found, found['first-one'].__module__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["first-one", f"{plugins.name}.first_one"]
