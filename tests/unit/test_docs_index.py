"""docs/README.md leads to every page of docs/, the README to it, and links to what they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_index_names_every_page_and_no_other() -> None:
    named = set(re.findall(r"\]\(([\w.-]+\.(?:md|json))\)", (ROOT / "docs/README.md").read_text()))
    there = {page.name for page in (ROOT / "docs").iterdir() if page.suffix in (".md", ".json")}
    assert named == there - {"README.md"}
    assert "(docs/README.md)" in (ROOT / "README.md").read_text()


def anchors(page: Path) -> set[str]:
    """What can stand after `#` in a link to a page, as GitHub makes it of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []
