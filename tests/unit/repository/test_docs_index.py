"""The indexes lead to every page of docs/, the README to the index, and links to their targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def pages_named_by(index: Path) -> set[Path]:
    """Return the pages of docs/ that an index links to."""
    links = re.findall(r"\]\(([\w./-]+\.(?:md|json))\)", index.read_text())
    targets = {(index.parent / link).resolve() for link in links}
    return {path for path in targets if path.is_relative_to(ROOT / "docs")}


def test_indexes_name_every_page_of_docs() -> None:
    indexes = sorted((ROOT / "docs").rglob("README.md"))
    named = set().union(*(pages_named_by(index) for index in indexes))
    pages = {*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").glob("*.json")}
    assert named == pages - {ROOT / "docs/README.md"}
    assert "(docs/README.md)" in (ROOT / "README.md").read_text()


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub derives them from headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_a_target(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []
