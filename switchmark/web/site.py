"""What `switchmark serve` shows: runs, their reports, and histories; nothing is kept but finished
pages, in memory, until the folder has something new.

A path of a request is never a path of this machine: runs are looked up by their names among those
that the folder holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, quote, unquote

from switchmark.errors import SwitchmarkError, UsageError
from switchmark.method.registry import METHODS
from switchmark.report.history import history_page
from switchmark.report.html import report_html
from switchmark.report.page import Link, Page, Section, Table, page_html
from switchmark.results.history import read_history
from switchmark.results.machine_id import MachineId
from switchmark.results.metric import figures_called
from switchmark.results.store import list_runs, open_run
from switchmark.web.pool_page import PoolState, pool_page

KEPT_PAGES = 16
HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
_Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """The answer to a request."""

    status: int
    body: bytes
    kind: str = HTML


class Site:
    """All pages of one results folder."""

    def __init__(self, root: Path, pool: Callable[[], PoolState] | None = None) -> None:
        self._root, self._pool = root, pool
        self._pages: OrderedDict[str, tuple[_Signature, bytes]] = OrderedDict()
        self._building = Lock()  # a page may take a core for seconds: one at a time

    def show(self, target: str) -> Shown:
        """The page at a path with its query, as a request has them."""
        path, _, query = target.partition("?")
        parts = [unquote(part) for part in path.split("/")[1:]]
        try:
            shown = self._shown(parts, query)
        except SwitchmarkError as error:
            shown = Shown(404, f"{error}\n".encode(), TEXT)
        return shown or Shown(404, b"there is no such page\n", TEXT)

    def _shown(self, parts: Sequence[str], query: str) -> Shown | None:
        match parts:
            case [""]:
                return self._kept("/", self._runs(), self._index)
            case ["run", name]:
                return self._report(name)
            case ["pool"] if self._pool is not None:
                return Shown(200, pool_page(self._pool()).encode())
            case ["history"]:
                return self._history(None, query)
            case ["history", switch]:
                return self._history(switch, query)
        return None

    def _runs(self) -> dict[str, Path]:
        """The runs by the names of their folders, the newest first."""
        found = list_runs(self._root, on_corrupt=lambda _: None)
        return {folder.name: folder for folder in reversed(found)}

    def _kept(self, key: str, runs: Mapping[str, Path], make: Callable[[], str]) -> Shown:
        """A page that was made of these runs as they are now, or is made anew."""
        signature = tuple(_signature(name, folder) for name, folder in runs.items())
        with self._building:
            kept = self._pages.get(key)
            if kept is None or kept[0] != signature:
                kept = signature, make().encode()
                self._pages[key] = kept
            self._pages.move_to_end(key)
            while len(self._pages) > KEPT_PAGES:
                self._pages.popitem(last=False)
        return Shown(200, kept[1])

    def _report(self, name: str) -> Shown:
        folder = self._runs().get(name)
        if folder is None:
            return Shown(404, b"there is no such run\n", TEXT)
        return self._kept(f"run/{name}", {name: folder}, lambda: report_html(folder)[0])

    def _history(self, switch: str | None, query: str) -> Shown:
        try:
            asked = parse_qs(query, max_num_fields=8).get("figure", [])
        except ValueError:
            raise UsageError("that is no question: ?figure=throughput") from None
        wanted = figures_called(asked, [one for each in METHODS.values() for one in each.compared])
        runs = self._runs()

        def make() -> str:
            found = read_history(reversed(runs.values()), wanted, switch)
            if not found.figures:
                raise UsageError("there is no valid figure of this kind")
            up = "../" if switch is not None else ""
            links = [Link("runs", up or "./")]
            if switch is not None:
                links.append(Link("all switches", "../history"))
            else:
                links += [Link(one, f"history/{quote(one, safe='')}") for one in found.switches]
            return history_page(found, f"{switch or 'All switches'}: history", links)

        names = "+".join(one.name for one in wanted)
        return self._kept(f"history/{switch or ''}?{names}", runs, make)

    def _index(self) -> str:
        problems: list[str] = []
        folders = list_runs(self._root, on_corrupt=problems.append)
        lines = [_line(folder) for folder in reversed(folders)]
        columns = ("run", "campaign", "started (UTC)", "machine", "trials", "switchmark")
        sections = [Section("Runs", table=Table(columns, lines, right=("trials",)))]
        if not lines:
            sections = [Section("Runs", ("Nothing has been measured yet.",))]
        if problems:
            sections.append(Section("Folders that could not be read", warned=problems))
        what = "1 run" if len(lines) == 1 else f"{len(lines)} runs"
        meta = f"{what} in {self._root.name or 'results'}"
        links = [Link("history", "history")] if lines else []
        links += [Link("pool", "pool")] if self._pool is not None else []
        return page_html(Page("Results", "switchmark", meta, sections, links))


def _line(folder: Path) -> Sequence[str | Link]:
    run = open_run(folder)
    info = run.info
    return (
        Link(folder.name, f"run/{quote(folder.name, safe='')}"),
        info.campaign,
        info.started_at[:16].replace("T", " "),
        MachineId.of({}, info.host).name,
        str(len(run.file_names())),
        info.switchmark_version,
    )


def _signature(name: str, folder: Path) -> tuple[str, int, int]:
    """Records are written under other names and renamed: the folder's time tells of each."""
    times = [one.stat().st_mtime_ns if one.exists() else 0 for one in (folder, folder / "trials")]
    return name, times[0], times[1]
