"""No class name stands for two things, private ones included."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import switchmark

ROOM = Path(switchmark.__file__).parent


def classes(source: str) -> list[str]:
    """The names of all classes in a file's text."""
    return [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]


def test_a_class_name_is_that_of_one_class() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(ROOM.rglob("*.py")):
        for name in classes(file.read_text()):
            found[name.lstrip("_")].append(str(file.relative_to(ROOM)))
    assert len(found) > 500  # they have been found at all
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
