"""docs/architecture.md lists the layers in the order that import-linter checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
FILES = {"plugins", "http_guard", "locks", "atomic_files", "formatting", "version", "errors"}


def test_layers_of_the_page_are_those_of_the_contract() -> None:
    text = (REPOSITORY / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\| `([a-z_]+)(?:/|\.py)` \|", text, re.MULTILINE)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    (contract,) = project["tool"]["importlinter"]["contracts"]
    layers = [layer.removeprefix("switchmark.") for layer in contract["layers"]]
    assert listed == [layer for layer in layers if layer not in FILES]
