"""The built documentation site: links, navigation, search, and no access to the network."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.unit.browser import Browser, browsing, chromium

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / ".venv-docs/bin/sphinx-build"
# Attributes whose address a browser loads without a click.
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}

pytestmark = [
    pytest.mark.skipif(
        not PROGRAM.exists(), reason="no site generator in .venv-docs (tools/docs-site --setup)"
    ),
    pytest.mark.xdist_group("docs_site"),
]


def build(root: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a tree as tools/docs-site does."""
    return subprocess.run(
        [PROGRAM, "--quiet", "--fail-on-warning", "-c", root / "docs/site", root, target],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    built = build(ROOT, target)
    assert (built.returncode, built.stderr) == (0, "")
    return target


@dataclass
class Page(HTMLParser):
    """The links, the anchors and the loaded addresses of a page."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.add(values.get("id", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if LOADED.get(tag) in values:
            self.loaded.append(values[LOADED[tag]])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    parsed = {}
    for path in site.rglob("*.html"):
        parsed[path] = Page()
        parsed[path].feed(path.read_text())
    return parsed


def broken(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    """Return True if a link does not lead to a file of the site, or not to an anchor of it."""
    address = urlsplit(link)
    if address.scheme or link == "#":
        return False
    target = (path.parent / unquote(address.path)).resolve() if address.path else path
    if target in pages:
        return bool(address.fragment) and unquote(address.fragment) not in pages[target].anchors
    return not target.is_file()


def test_links_and_anchors_resolve(pages: dict[Path, Page]) -> None:
    dead = [
        f"{path.name}: {link}"
        for path, page in pages.items()
        for link in [*page.links, *page.loaded]
        if broken(path, link, pages)
    ]
    assert dead == []
    assert sum(len(page.links) for page in pages.values()) > 1000


def test_pages_load_nothing_from_the_network(site: Path, pages: dict[Path, Page]) -> None:
    loaded = {address for page in pages.values() for address in page.loaded}
    assert [one for one in loaded if urlsplit(one).scheme not in ("", "data")] == []
    styles = [path for path in site.rglob("*.css") if "url(http" in path.read_text()]
    assert styles == []


def test_every_page_of_docs_is_in_the_navigation(site: Path, pages: dict[Path, Page]) -> None:
    linked = {
        (site / urlsplit(link).path).resolve()
        for link in pages[site / "index.html"].links
        if not urlsplit(link).scheme
    }
    for page in (ROOT / "docs").glob("*.md"):
        assert site / "docs" / f"{page.stem}.html" in linked, page.name


def test_build_with_a_broken_link_fails(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs/site", tmp_path / "docs/site")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "README.md").write_text("# Home\n\n[a page](docs/page.md#first)\n")
    (tmp_path / "docs/README.md").write_text("# Index\n\n## Pages\n\n[page](page.md)\n")
    page = tmp_path / "docs/page.md"
    page.write_text("# Page\n\n## First\n\ntext\n")
    built = build(tmp_path, tmp_path / "good")
    assert (built.returncode, built.stderr) == (0, "")
    page.write_text("# Page\n\n## Second\n\n[no page](none.md)\n")
    built = build(tmp_path, tmp_path / "bad")
    assert built.returncode != 0
    assert "none.md" in built.stderr
    assert "first" in built.stderr


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("no chromium here (apt install chromium)")
    with browsing(tmp_path_factory.mktemp("profile")) as found:
        yield found


def follow(browser: Browser, script: str, title: str) -> None:
    """Run a script that leaves the page, and wait for the page with this title."""
    browser.value(script)
    browser.wait_for(f"document.readyState == 'complete' && document.title.includes('{title}')")


def test_reader_navigates_and_searches_offline(browser: Browser, site: Path) -> None:
    """From the front page to a page of the navigation, and from a searched word to its page."""
    browser.open(site / "index.html")
    link = '.sidebar-tree a[href="docs/comparing.html"]'
    follow(browser, f"document.querySelector('{link}').click()", "Comparing")
    follow(
        browser,
        "(() => { const field = document.querySelector('.sidebar-search');"
        " field.value = 'hugepages'; field.form.submit(); })()",
        "Search",
    )
    result = '#search-results li a[href^="docs/page-sizes.html"]'
    browser.wait_for(f"document.querySelector('{result}') !== null")
    follow(browser, f"document.querySelector('{result}').click()", "Page sizes")
    assert browser.complaints == []
    assert {urlsplit(one).scheme for one in browser.requests} <= {"file", "data"}


@pytest.mark.parametrize("width", [1280, 400])
def test_page_with_wide_tables_fits_the_window(browser: Browser, site: Path, width: int) -> None:
    browser.open(site / "docs/places.html", width)
    assert browser.value("document.documentElement.scrollWidth") <= width
