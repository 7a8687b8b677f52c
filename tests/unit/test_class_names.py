"""No class name stands for two things."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import switchmark

ROOT = Path(switchmark.__file__).parent
OTHERS_WORDS = {ROOT / "otg" / "types.py"}  # generated from a published document, in its words


def test_a_class_name_stands_for_one_thing() -> None:
    places = defaultdict(list)
    for path in sorted(set(ROOT.rglob("*.py")) - OTHERS_WORDS):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
