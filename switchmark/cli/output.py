"""Output of commands: JSON for programs, tables for people, plain text in a pipe.

Colour and boxes appear on a terminal only; `NO_COLOR` and a pipe switch them off. Rich is
imported when a table is made, so commands that print JSON start without it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.errors import UsageError
from switchmark.formatting import CONTROLS, printable

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 10_000  # a pipe has no edge at which to cut a table
_READABLE = 100  # columns
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
    """A console for standard output (or error) that knows whether it is a terminal. A pipe has no
    limit of the width (`soft_wrap`), unless COLUMNS sets one for standard output."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    screen = stream.isatty()
    has_columns = not stderr and os.environ.get("COLUMNS", "").isdecimal()
    is_limited = screen or has_columns
    return Console(
        file=stream,
        width=None if is_limited else _WIDE,
        no_color=True if "NO_COLOR" in os.environ or not screen else None,
        highlight=False,
        soft_wrap=not is_limited,
    )


class Tone(StrEnum):
    """The meaning of a coloured line, as a style of rich. Colours are absent in a pipe, with
    NO_COLOR and on a dumb terminal."""

    PLAIN = ""
    HEADING = "bold"
    FAILED = "bold red"
    NOT_VALID = "red"
    CAUTION = "yellow"
    PROVEN = "green"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text that fits the screen, with its meaning."""

    text: str
    tone: Tone = Tone.PLAIN


def text_width() -> int:
    """Return the columns of running text, which are those of the screen up to a readable number."""
    return max(_NARROWEST, min(console().width, _READABLE))


def wrapped(
    text: str, first: int = 0, rest: int = 2, tone: Tone = Tone.PLAIN, *, width: int | None = None
) -> list[Line]:
    """Return the text in lines that break between words; `first` and `rest` are indentations."""
    width = width or text_width()
    parts = textwrap.wrap(
        printable(text), width, initial_indent=" " * first, subsequent_indent=" " * rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [Line(part, tone) for part in parts]


def print_remark(text: str, first: int = 0, tone: Tone = Tone.PLAIN) -> None:
    """Print text on standard output, wrapped on a terminal and as one line in a pipe."""
    width = _WIDE if console().soft_wrap else text_width()
    print_lines(wrapped(text, first, first + 2, tone, width=width) or [Line("")])


def program_name() -> str:
    """Return how the user can call switchmark: by its name if the shell finds this program by it,
    otherwise by the path that the user wrote, such as `.venv/bin/switchmark` in a clone."""
    from switchmark.host.place.remedies import program_path

    found = shutil.which("switchmark")
    if found and Path(found).resolve() == Path(sys.argv[0]).resolve():
        return "switchmark"
    return program_path(sys.argv[0])


def command_lines(label: str, arguments: Sequence[str], *, width: int | None = None) -> list[Line]:
    """Return a command of switchmark with these arguments in a form that can be pasted: quoted, and
    continued with backslashes if it does not fit behind its label."""
    quoted = [program_name(), *map(shlex.quote, arguments)]
    whole = f"{label}: {' '.join(quoted)}"
    if width is None and console().soft_wrap:
        return [Line(printable(whole))]
    width = width or text_width()
    if len(whole) <= width:
        return [Line(printable(whole))]
    lines, current = [f"{label}:"], " "
    for word in quoted:
        if len(current) + len(word) + len("  \\") > width and current.strip():
            lines.append(f"{current} \\")
            current = "   "
        current += f" {word}"
    return [Line(printable(line)) for line in [*lines, current]]


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines on standard output, with colours where these are wanted."""
    out = console()
    if not out.is_terminal or out.no_color or out.color_system is None:
        print("\n".join(printable(line.text) for line in lines))
        return
    from rich.text import Text

    for line in lines:
        out.print(Text(printable(line.text), style=line.tone.value), soft_wrap=True)


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    right: Sequence[str] = (),
) -> None:
    """Print a table on standard output; `right` names the columns that hold numbers. Cells wrap
    between words. If a screen is too narrow for the words, each row becomes a paragraph."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    texts = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    titles = []
    if title:
        titles = wrapped(title, rest=0, tone=Tone.HEADING, width=out.width)
    widths = None if out.soft_wrap else _column_widths(columns, texts, out.width)
    if widths is None and not out.soft_wrap:
        print_lines([*titles, Line("")] if title else [])
        print("\n".join(_paragraphs(columns, texts, out.width)))
        return
    print_lines(titles)
    table = Table(
        box=box.SIMPLE_HEAD if out.is_terminal else None,
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for number, column in enumerate(columns):
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            width=widths[number] if widths else None,
        )
    for row in texts:
        table.add_row(*map(Text, row))
    with out.capture() as captured:
        out.print(table)
    print("\n".join(line.rstrip() for line in captured.get().strip("\n").splitlines()))


def _column_widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> list[int] | None:
    """Return the width of each column so that no word is broken, or None if the screen is too
    narrow. The widest columns give up space first."""
    cells = [[column, *(row[at] for row in rows)] for at, column in enumerate(columns)]
    least = [max(map(len, " ".join(column).split()), default=0) for column in cells]
    widths = [max(map(len, column)) for column in cells]
    space = width - len(_GAP) * (len(columns) - 1)
    if sum(least) > space:
        return None
    while sum(widths) > space:
        over = [at for at in range(len(widths)) if widths[at] > least[at]]
        widest = max(over, key=lambda at: widths[at])
        widths[widest] -= 1
    texts = max(range(len(widths)), key=lambda at: widths[at])
    is_text_readable = widths[texts] >= min(_NARROWEST, max(map(len, cells[texts])))
    return widths if is_text_readable else None


def _paragraphs(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Return each row as lines: its first cell, and below it the other cells that are not empty."""
    indent = max(map(len, columns)) + 2 * len(_GAP)
    for row in rows:
        yield row[0]
        for column, cell in zip(columns[1:], row[1:], strict=True):
            parts = textwrap.wrap(
                cell, max(width - indent, _NARROWEST), break_on_hyphens=False,
                break_long_words=False,
            )  # fmt: skip
            names = [f"{_GAP}{column}", *[""] * len(parts)]
            for name, line in zip(names, parts, strict=False):
                yield f"{name:{indent}}{line}"
        yield ""


def print_line(text: str = "") -> None:
    """Print a line of plain text on standard output."""
    print(printable(text))


def note(text: str) -> None:
    """Print a remark for the person at the terminal, on standard error so that pipes stay clean."""
    with suppress(OSError):  # a remark that cannot be written does not stop the command
        sys.stdout.flush()  # a file that takes both streams then has the lines in order
        out = console(stderr=True)
        width = _WIDE if out.soft_wrap else min(max(out.width, _NARROWEST), _READABLE)
        for line in wrapped(text, width=width) or [Line("")]:
            print(line.text, file=sys.stderr)


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
