"""A switch, an environment or a method is one file: no other code compares with its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import switchmark
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.method.registry import METHODS
from switchmark.switch.registry import SWITCHES

ROOT = Path(switchmark.__file__).parent
NAMES = {*SWITCHES, *ENVIRONMENTS, *METHODS}


def _compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts that are compared with, and their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                texts = side.elts if isinstance(side, ast.Tuple | ast.Set | ast.List) else [side]
                for node_of_text in texts:
                    if isinstance(node_of_text, ast.Constant) and isinstance(
                        node_of_text.value, str
                    ):
                        yield node.lineno, node_of_text.value


def test_no_code_compares_with_names_of_plugins() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(ROOT.rglob("*.py"))
        for line, text in _compared(ast.parse(path.read_text()))
        if text in NAMES
    ]
    assert not found, "ask the registry, or a capability, instead"


def _listed(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Yield the texts of each collection and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.Set | ast.List | ast.Dict):
            texts = node.keys if isinstance(node, ast.Dict) else node.elts
            values = {one.value for one in texts if isinstance(one, ast.Constant)}
            yield node.lineno, {one for one in values if isinstance(one, str)}


def test_nothing_lists_switches() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(sorted(names))}"
        for path in sorted(ROOT.rglob("*.py"))
        for line, texts in _listed(ast.parse(path.read_text()))
        if len(names := texts & set(SWITCHES)) > 1
    ]
    assert not found, "each switch declares it in its capabilities"
