"""The table of docs/evidence/reference-checks.md, made from the integration tests: each figure, its
independent reference, and how closely they agree.

    python -m tests.truths          write the table
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import isfunction
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "evidence" / "reference-checks.md"
BEGIN, END = "<!-- table: truths -->", "<!-- end: truths -->"
FOLDER = ROOT / "tests" / "integration"
HEAD = "| figure | reference | source | agreement within | test |\n|---|---|---|---|---|"
SOURCES = {"ours": "this project", "other tool": "another tool"}
WHOSE = ("kernel", "Open vSwitch", "other tool", "ours")

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True, order=True)
class Truth:
    """One row: the figure (a method's name, or another subject) and its reference."""

    figure: str
    truth: str
    whose: str
    within: str
    test: str = ""


def truth(figure: str, of: str, whose: str, within: str) -> Callable[[Test], Test]:
    """Mark a test that compares `figure` with the reference `of`, within a tolerance."""
    assert whose in WHOSE, whose

    def mark(test: Test) -> Test:
        test.__dict__.setdefault("truths", []).append(Truth(figure, of, whose, within))
        return test

    return mark


def percent(share: float) -> str:
    """Return a tolerance as text for the table."""
    return f"{100 * share:g} %"


def found() -> list[Truth]:
    """Return all rows of the integration tests, sorted."""
    rows: list[Any] = []
    for path in sorted(FOLDER.glob("test_*.py")):
        if "tests.truths" in path.read_text():
            rows += _of_module(path.stem)
    return sorted(rows)


def _of_module(name: str) -> Iterator[Truth]:
    module = importlib.import_module(f"tests.integration.{name}")
    holders = [module, *(value for value in vars(module).values() if isinstance(value, type))]
    for holder in holders:
        for attribute, test in list(vars(holder).items()):
            # Only functions: a read of an attribute of a model that is not built yet builds it.
            for row in getattr(test, "truths", ()) if isfunction(test) else ():
                yield Truth(row.figure, row.truth, row.whose, row.within, f"{name}.{attribute}")


def table() -> str:
    """Return the rows as the table of the document."""
    lines = [
        f"| {one.figure} | {one.truth} | {SOURCES.get(one.whose, one.whose)} | {one.within} "
        f"| `{one.test}` |"
        for one in found()
    ]
    return "\n".join([HEAD, *lines])


def page(text: str) -> str:
    """Return the text of the document with the present table."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{DOCUMENT}: the markers of table truths are missing"
    return f"{before}{begin}\n{table()}\n{end}{after}"


def main() -> None:
    """Write the table into the document."""
    DOCUMENT.write_text(page(DOCUMENT.read_text()))


if __name__ == "__main__":
    main()
