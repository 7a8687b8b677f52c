"""`switchmark --man`: the manual page, from the descriptions that `--help` prints.

One page for all commands, as roff for `man`; packages install it as switchmark(1)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from switchmark.version import __version__

SEE_ALSO = r"\fBswitchmark\-traffic\fR(1)"


def man_page(root: Any, commands: dict[str, Any]) -> str:
    """The manual page of a command line, given as typer's objects: its root, and its commands."""
    summary, _, description = _text(root.help).partition("\n\n")
    lines = [
        f'.TH SWITCHMARK 1 "" "switchmark {__version__}" "User Commands"',
        ".SH NAME",
        rf"switchmark \- {_escaped(summary)}",
        ".SH SYNOPSIS",
        r".B switchmark",
        r".RI [ OPTIONS ] \ COMMAND \ [ ARGUMENTS ]",
        ".SH DESCRIPTION",
        *_paragraphs(description),
        ".SH OPTIONS",
        *_parameters(root, _context(root, "switchmark")),
        ".SH COMMANDS",
    ]
    for name, command in commands.items():
        lines += _command(name, command)
    lines += [*_epilog(root.epilog, ".SH "), ".SH SEE ALSO", SEE_ALSO]
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    context = _context(command, f"switchmark {name}")
    yield f".SS switchmark {name} {_escaped(' '.join(command.collect_usage_pieces(context)))}"
    yield from _paragraphs(_text(command.help))
    yield from _parameters(command, context)
    yield from _epilog(command.epilog, ".P\n")
    for inner, subcommand in getattr(command, "commands", {}).items():
        yield from _command(f"{name} {inner}", subcommand)


def _context(command: Any, name: str) -> Any:
    return command.context_class(command, info_name=name, **command.context_settings)


def _parameters(command: Any, context: Any) -> Iterator[str]:
    for parameter in command.get_params(context):
        if (record := parameter.get_help_record(context)) is not None:
            spelling, help_text = record
            yield ".TP"
            yield rf"\fB{_escaped(spelling)}\fR"
            yield _escaped(" ".join(help_text.split())) or r"\&"


def _epilog(text: str | None, heading: str) -> Iterator[str]:
    """Blocks that are printed unchanged; a first line that ends in a colon is a heading."""
    for block in (text or "").replace("\b\n", "").split("\n\n"):
        first, *rest = lines = block.splitlines() or [""]
        if first.endswith(":") and rest:
            title = first[:-1].upper() if heading == ".SH " else first
            yield f"{heading}{_escaped(title)}"
            lines = rest
        elif first:
            yield ".P"
        yield from (".nf", *map(_escaped, lines), ".fi")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from (".P", _escaped(" ".join(paragraph.split())))


def _text(help_: str | None) -> str:
    return inspect.cleandoc(help_ or "").replace("\b\n", "")


def _escaped(text: str) -> str:
    """Text that roff prints unchanged: hyphens that can be copied, no line that is a request."""
    text = text.replace("\\", r"\(rs").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text
