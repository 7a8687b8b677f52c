"""docs/README.md leads to every page of docs/, and the README to it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_index_names_every_page_and_no_other() -> None:
    named = set(re.findall(r"\]\(([\w.-]+\.(?:md|json))\)", (ROOT / "docs/README.md").read_text()))
    there = {page.name for page in (ROOT / "docs").iterdir() if page.suffix in (".md", ".json")}
    assert named == there - {"README.md"}
    assert "(docs/README.md)" in (ROOT / "README.md").read_text()
