"""The pages of `switchmark serve`: runs, their reports, and histories.

Nothing is kept but finished pages, in memory, until there is something new. A path of a request is
never a path of this machine: runs are looked up by their names among those that the folder or the
store holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from urllib.parse import parse_qs, quote, unquote

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.method.registry import METHODS
from switchmark.record.metric import figures_called
from switchmark.report.history import history_page
from switchmark.report.html import report_html
from switchmark.report.page import Link, Page, Section, Table, page_html
from switchmark.results.history import read_history
from switchmark.store.errors import StoreAwayError
from switchmark.web.pool_page import PoolState, pool_page
from switchmark.web.run_source import Shelf, ShelvedRun

KEPT_PAGES = 16
HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Shown:
    """The answer to a request."""

    status: int
    body: bytes
    kind: str = HTML


class WebSite:
    """All pages over one folder or store."""

    def __init__(self, shelf: Shelf, pool: Callable[[], PoolState] | None = None) -> None:
        self._shelf, self._pool = shelf, pool
        self._pages: OrderedDict[str, tuple[Sequence[ShelvedRun], bytes]] = OrderedDict()
        self._building = Lock()  # a page may take a core for seconds: one at a time

    def show(self, target: str) -> Shown:
        """The page at a path with its query, as a request has them."""
        path, _, query = target.partition("?")
        parts = [unquote(part) for part in path.split("/")[1:]]
        try:
            shown = self._shown(parts, query)
        except StoreAwayError as error:
            shown = Shown(503, f"{error}\n".encode(), TEXT)
        except SwitchmarkError as error:
            shown = Shown(404, f"{error}\n".encode(), TEXT)
        return shown or Shown(404, b"there is no such page\n", TEXT)

    def _shown(self, parts: Sequence[str], query: str) -> Shown | None:
        match parts:
            case [""]:
                runs, problems = self._shelf.runs()
                return Shown(200, self._index(runs, problems).encode())
            case ["run", name]:
                return self._report(name)
            case ["pool"] if self._pool is not None:
                return Shown(200, pool_page(self._pool()).encode())
            case ["history"]:
                return self._history(None, query)
            case ["history", switch]:
                return self._history(switch, query)
        return None

    def _kept(self, key: str, runs: Sequence[ShelvedRun], make: Callable[[], str]) -> Shown:
        """Return the page of these runs: the cached page if they have not changed, or a new one."""
        with self._building:
            page = self._pages.get(key)
            if page is None or page[0] != runs:
                page = runs, make().encode()
                self._pages[key] = page
            self._pages.move_to_end(key)
            while len(self._pages) > KEPT_PAGES:
                self._pages.popitem(last=False)
        return Shown(200, page[1])

    def _report(self, name: str) -> Shown:
        run = self._shelf.run(name)
        if run is None:
            return Shown(404, b"there is no such run\n", TEXT)

        def make() -> str:
            folder, problems = self._shelf.folder(run)
            return report_html(folder, problems)[0]

        return self._kept(f"run/{name}", [run], make)

    def _history(self, switch: str | None, query: str) -> Shown:
        try:
            named = parse_qs(query, max_num_fields=8).get("figure", [])
        except ValueError:
            raise UsageError("unknown query; use e.g. ?figure=throughput") from None
        figures = figures_called(named, [one for each in METHODS.values() for one in each.compared])
        runs, _ = self._shelf.runs()

        def make() -> str:
            folders = [self._shelf.folder(run)[0] for run in reversed(runs)]
            found = read_history(folders, figures, switch)
            if not found.figures:
                raise UsageError("there is no valid figure of this kind")
            up = "../" if switch is not None else ""
            links = [Link("runs", up or "./")]
            if switch is not None:
                links.append(Link("all switches", "../history"))
            else:
                links += [Link(one, f"history/{quote(one, safe='')}") for one in found.switches]
            return history_page(found, f"{switch or 'All switches'}: history", links)

        names = "+".join(one.name for one in figures)
        return self._kept(f"history/{switch or ''}?{names}", runs, make)

    def _index(self, runs: Sequence[ShelvedRun], problems: Sequence[str]) -> str:
        columns = ("run", "campaign", "started (UTC)", "machine", "trials", "switchmark")
        lines = [_line(run) for run in runs]
        sections = [Section("Runs", table=Table(columns, lines, right=("trials",)))]
        if not lines:
            sections = [Section("Runs", ("Nothing has been measured yet.",))]
        if problems:
            sections.append(Section("Folders that could not be read", warned=problems))
        count = "1 run" if len(lines) == 1 else f"{len(lines)} runs"
        links = [Link("history", "history")] if lines else []
        links += [Link("pool", "pool")] if self._pool is not None else []
        meta = f"{count} in {self._shelf.name}"
        return page_html(Page("Results", "switchmark", meta, sections, links))


def _line(run: ShelvedRun) -> Sequence[str | Link]:
    return (
        Link(run.name, f"run/{quote(run.name, safe='')}"),
        run.campaign,
        run.started_at,
        run.machine,
        str(run.trials),
        run.switchmark,
    )
