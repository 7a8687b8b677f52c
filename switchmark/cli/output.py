"""How commands print: JSON for programs, tables for people, plain text where there is no screen.

Colour and boxes appear on a terminal only; `NO_COLOR` and a pipe switch them off. Rich is
imported when a table is made, so commands that print JSON start without it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.errors import UsageError
from switchmark.formatting import CONTROLS, printable

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 10_000  # a pipe has no edge at which to cut a table
_READABLE = 100  # columns
_FEW = 3  # columns, which can be read with some words broken
_GAP = "   "  # between two columns on a screen
_NARROWEST = 20  # columns of text that a line has on any screen


def print_json(value: Any) -> None:
    """One JSON document on standard output. Takes models, dataclasses, enums and paths."""
    print(_json(value))


def print_json_list(values: Iterable[Any]) -> None:
    """Print a list as JSON whose values are made one at a time, since they may not fit into memory
    together."""
    before = "["
    for value in values:
        print(before, "\n  ", _json(value).replace("\n", "\n  "), sep="", end="")
        before = ","
    print("[]" if before == "[" else "\n]")


def _json(value: Any) -> str:
    text = json.dumps(value, default=_plain, indent=2, ensure_ascii=False, allow_nan=False)
    return re.sub(CONTROLS, lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def console(*, stderr: bool = False) -> Console:
    """A console for standard output (or error) that knows whether it is a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    screen = stream.isatty()
    return Console(
        file=stream,
        width=None if screen else _WIDE,
        no_color=True if "NO_COLOR" in os.environ or not screen else None,
        highlight=False,
        soft_wrap=not screen,
    )


def text_width() -> int:
    """The columns of running text: those of the screen, and no more than can be read easily."""
    out = console()
    return min(out.width, _READABLE) if out.is_terminal else _READABLE


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    right: Sequence[str] = (),
) -> None:
    """Print a table on standard output; `right` names the columns that hold numbers. On a screen
    that is too narrow for its words each row is a paragraph."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    texts = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if out.is_terminal and len(columns) > _FEW and _least_width(columns, texts) > out.width:
        print("\n".join([*([title, ""] if title else []), *_paragraphs(columns, texts, out.width)]))
        return
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if out.is_terminal else None,
        pad_edge=False,
        header_style="bold",
    )
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))
    with out.capture() as captured:
        out.print(table)
    print("\n".join(line.rstrip() for line in captured.get().strip("\n").splitlines()))


def _least_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The characters that a table takes at least, unless words are broken."""
    cells = [[column, *(row[at] for row in rows)] for at, column in enumerate(columns)]
    words = [[word for cell in column for word in cell.split()] for column in cells]
    return sum(max(map(len, column), default=0) + len(_GAP) for column in words)


def _paragraphs(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Each row in lines of its own: its first cell, and below it the others that say something."""
    from textwrap import wrap

    indent = max(map(len, columns)) + 2 * len(_GAP)
    for row in rows:
        yield row[0]
        for column, cell in zip(columns[1:], row[1:], strict=True):
            words = wrap(cell, max(width - indent, _NARROWEST), break_on_hyphens=False)
            names = [f"{_GAP}{column}", *[""] * len(words)]
            for name, line in zip(names, words, strict=False):
                yield f"{name:{indent}}{line}"
        yield ""


def print_line(text: str = "") -> None:
    """Print a line of plain text on standard output."""
    print(printable(text))


def note(text: str) -> None:
    """Print a remark for the person at the terminal, on standard error so that pipes stay clean."""
    with suppress(OSError):  # a remark that nobody can take is no reason to stop
        sys.stdout.flush()  # in a file that takes both, each line stands where it was printed
        print(printable(text), file=sys.stderr)


def note_problems(lines: Iterable[str]) -> int:
    """Print what could not be read, or what else is to be said of a result, on standard error;
    returns the exit code, which is 1 where there is a line."""
    code = 0
    for line in lines:
        note(f"switchmark: {line}")
        code = 1
    return code


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Turn errors of writing a file that the user named into UsageError: they are bad input."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        why = error.strerror or str(error).splitlines()[0]
        raise UsageError(
            f"{option} {where}: cannot be written ({why}); name another place"
        ) from None
