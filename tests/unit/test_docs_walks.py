"""The two walks of docs/architecture.md pass through files and functions that are there, in few
steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
ROOTS = (REPOSITORY, REPOSITORY / "switchmark", REPOSITORY / "engine")


def walk(title: str) -> list[str]:
    """The places of the walk under this title, a row each."""
    text = (REPOSITORY / "docs" / "architecture.md").read_text()
    (section,) = re.findall(rf"^## {title}.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)


# Before the rooms were made, a rate passed 26 places and a sample 14.
@pytest.mark.parametrize(
    ("title", "most"), [("The way of a rate", 13), ("The way of a round trip", 7)]
)
def test_a_walk_takes_half_the_steps_that_it_took(title: str, most: int) -> None:
    assert 5 <= len(walk(title)) <= most


@pytest.mark.parametrize("title", ["The way of a rate", "The way of a round trip"])
def test_a_walk_passes_files_and_functions_that_exist(title: str) -> None:
    for row in walk(title):
        names = re.findall(r"`([\w./]+)`", row)
        files = [name for name in names if re.search(r"\.(py|c|h)$", name)]
        assert files, row
        texts = []
        for name in files:
            found = [root / name for root in ROOTS if (root / name).is_file()]
            assert found, f"{row}: there is no {name}"
            texts += [one.read_text() for one in found]
        for name in set(names) - set(files):
            word = name.rsplit(".", 1)[-1]
            assert any(re.search(rf"\b{word}\b", text) for text in texts), f"{row}: no {name}"
