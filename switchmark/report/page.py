"""Pages without external resources: headings, sentences, tables and plots.

Nothing is loaded from elsewhere, and only the two scripts of the page run. The content security
policy lists their hashes, so the browser enforces this for any content of a record.
"""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from switchmark.formatting import printable
from switchmark.report.figures import Drawing
from switchmark.version import full_version

TEMPLATES = Path(__file__).parent / "template"


@dataclass(frozen=True, slots=True)
class Link:
    """A cell or an item that links to another page of this project."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Table:
    """Headings and lines of text; `right` names the columns of numbers."""

    columns: Sequence[str]
    lines: Sequence[Sequence[str | Link]]
    right: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page."""

    heading: str
    sentences: Sequence[str | Link] = ()
    figures: Sequence[Drawing] = ()
    table: Table | None = None
    warned: Sequence[str] = ()  # important remarks
    folded: bool = False  # the table is less important


class PlotData:
    """Collects the data of figures while the page is rendered."""

    def __init__(self) -> None:
        self.payloads: list[dict[str, Any]] = []

    def add(self, figure: Drawing) -> int:
        """Add a figure, and return its number for the script of the page."""
        self.payloads.append(figure.payload())
        return len(self.payloads) - 1

    def script(self) -> Markup:
        """Return the data as JSON that cannot end its script element."""
        text = json.dumps(self.payloads, separators=(",", ":"), allow_nan=False)
        return Markup(text.replace("<", "\\u003c"))


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page."""

    title: str
    kicker: str  # above the title: the kind of page
    meta: str  # below the title
    sections: Sequence[Section]
    links: Sequence[Link] = field(default_factory=tuple)  # links to other pages, at the top


def templates(folder: Path = TEMPLATES, **more: Any) -> Environment:
    """Return the templates of a folder. Values are escaped, unless `more` changes it, control
    characters become visible, and a missing value is an error."""
    usual: dict[str, Any] = {
        "autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "finalize": _visible,
    }  # fmt: skip
    return Environment(loader=FileSystemLoader(folder), undefined=StrictUndefined, **usual | more)


def _visible(value: Any) -> Any:
    return printable(value) if type(value) is str else value


def page_html(page: Page) -> str:
    """Return the page as one file."""
    figures = PlotData()
    # Only the texts of this project and of plotly are not escaped, because they are not data.
    scripts = [_plotly()] if any(section.figures for section in page.sections) else []
    scripts.append((TEMPLATES / "report.js").read_text("utf-8"))
    context: Mapping[str, Any] = {
        "page": page,
        "version": full_version(),
        "figure": figures.add,
        "figures": figures.script,
        "is_link": lambda section: isinstance(section, Link),
        "policy": Markup(policy(*scripts)),
        "style": Markup((TEMPLATES / "report.css").read_text("utf-8")),
        "scripts": [Markup(section) for section in scripts],
    }
    return templates().get_template("page.html.j2").render(context)


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


@cache
def page_policy() -> str:
    """Return the content security policy of every page of this project."""
    return policy(_plotly(), (TEMPLATES / "report.js").read_text("utf-8"))


def policy(*scripts: str) -> str:
    """Return the content security policy of a page: nothing is loaded, and only these scripts run.

    Inline styles are permitted, as plotly uses them; a style cannot load anything either."""
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'"
    )
