"""Configuration of the documentation site (tools/docs-site).

The pages are the Markdown files of the repository, as they are. The navigation comes from the
index pages: each heading of docs/README.md becomes a group, and each page that is linked below it
an entry. The pages that the index of a folder below docs/ links to become entries below it.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from posixpath import normpath

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
HOME = "README"
INDEX = "docs/README"
_HEADING = re.compile(r"^## +(.+)$", re.MULTILINE)
_PAGE = re.compile(r"\]\(([\w./-]+)\.md\)")

project = "switchmark"
author = "the switchmark authors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
version = release

extensions = ["myst_parser"]
root_doc = HOME
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "build*", "results*", "dist", "engine", "switchmark", "tests", "bench"]
suppress_warnings = ["misc.highlighting_failure"]  # output of commands is not a language

myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]
highlight_language = "none"

html_theme = "furo"
html_title = f"switchmark {release}"
html_static_path = [str(Path(__file__).with_name("style.css"))]
html_css_files = ["style.css"]
html_show_search_summary = False  # it reads pages by HTTP, which fails for file://
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}


def _linked_pages(text: str, folder: str) -> list[str]:
    """Return the pages that a text links to, without duplicates, as paths from the root."""
    paths = (normpath(f"{folder}/{link}") for link in _PAGE.findall(text))
    return list(dict.fromkeys(path for path in paths if path != HOME))


def _toctree(caption: str, pages: list[str]) -> str:
    entries = "\n".join(f"/{page}" for page in pages)
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def navigation() -> list[tuple[str, list[str]]]:
    """Return the groups of the navigation with their pages, in the order of docs/README.md."""
    _, *parts = _HEADING.split((ROOT / f"{INDEX}.md").read_text())
    groups = zip(parts[::2], parts[1::2], strict=True)
    return [(heading, _linked_pages(text, "docs")) for heading, text in groups]


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append the hidden table of contents to the home page and to the index of a folder."""
    if page == HOME:
        source[0] += _toctree("Overview", [INDEX])
        source[0] += "".join(_toctree(caption, pages) for caption, pages in navigation() if pages)
    elif page.startswith("docs/") and page.endswith("/README") and page != INDEX:
        folder = page.rpartition("/")[0]
        source[0] += _toctree("Pages", _linked_pages(source[0], folder))


def add_front_page(app: Sphinx, error: Exception | None) -> None:
    """Copy the home page to index.html, which web servers and readers open first."""
    if error is None and app.builder.name == "html":
        shutil.copy(app.outdir / f"{HOME}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Register the hooks."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", add_front_page)
