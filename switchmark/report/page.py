"""Pages that need no network: headings, sentences, tables, plots, under a content security policy.

Nothing is loaded from anywhere, and no script runs but the two that are written here, which the
policy names by their hashes: a browser enforces it whatever a record says.
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

from switchmark.report.figures import Drawing
from switchmark.version import full_version

TEMPLATES = Path(__file__).parent / "template"


@dataclass(frozen=True, slots=True)
class Link:
    """A cell, or an item, that links to one of our pages."""

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
    warned: Sequence[str] = ()  # remarks that a reader must mind
    folded: bool = False  # the table is of less need


class PlotData:
    """Collects the data of figures while the page is rendered."""

    def __init__(self) -> None:
        self.payloads: list[dict[str, Any]] = []

    def add(self, figure: Drawing) -> int:
        """Add a figure; returns the number under which the page's script finds it."""
        self.payloads.append(figure.payload())
        return len(self.payloads) - 1

    def script(self) -> Markup:
        """The data as JSON that cannot end the script element it stands in."""
        text = json.dumps(self.payloads, separators=(",", ":"), allow_nan=False)
        return Markup(text.replace("<", "\\u003c"))


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page."""

    title: str
    kicker: str  # above the title: what kind of page it is
    meta: str  # below it
    sections: Sequence[Section]
    links: Sequence[Link] = field(default_factory=tuple)  # to other pages, at the top


def templates(folder: Path = TEMPLATES, **more: Any) -> Environment:
    """The templates of a folder. Values are escaped, unless `more` says otherwise, and a missing
    value is an error."""
    usual = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=FileSystemLoader(folder), undefined=StrictUndefined, **usual | more)


def page_html(page: Page) -> str:
    """The page as one file."""
    figures = PlotData()
    # Our own texts and plotly's, not data: the only parts that are not escaped.
    scripts = [_plotly()] if any(one.figures for one in page.sections) else []
    scripts.append((TEMPLATES / "report.js").read_text("utf-8"))
    context: Mapping[str, Any] = {
        "page": page,
        "version": full_version(),
        "figure": figures.add,
        "figures": figures.script,
        "is_link": lambda one: isinstance(one, Link),
        "policy": Markup(policy(*scripts)),
        "style": Markup((TEMPLATES / "report.css").read_text("utf-8")),
        "scripts": [Markup(one) for one in scripts],
    }
    return templates().get_template("page.html.j2").render(context)


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


@cache
def page_policy() -> str:
    """The content security policy of every page of ours."""
    return policy(_plotly(), (TEMPLATES / "report.js").read_text("utf-8"))


def policy(*scripts: str) -> str:
    """The content security policy of a page: nothing is loaded, and only these scripts run.

    (Styles may stand with what they style, as plotly's do; a style can load nothing either.)"""
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'"
    )
