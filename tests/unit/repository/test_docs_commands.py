"""Every command of the bench in the documentation can be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from switchmark.cli.main import COMMANDS, build, load_command

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# Text that may precede the program's name on a line.
BEFORE = re.compile(r"^(?:\$ )?(?:sudo )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?switchmark ")
HELP = {"--help", "-h"}
PLACEHOLDERS = str.maketrans("", "", "[]()")
END = {"|", "||", "&&", ";", ">", ">>", "2>", "<", "#", "&", "..."}


def typed(text: str, before: re.Pattern[str] = BEFORE) -> Iterator[str]:
    """Yield the lines of code blocks, fenced or indented, that begin with the program's name."""
    for block in re.findall(r"^ *```[a-z]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        yield from lines_of(block, before)
    indented = "\n".join(re.findall(r"^ {4}.*$", without_fences(text), re.MULTILINE))
    yield from lines_of(indented, before)


def mentioned(text: str, before: re.Pattern[str] = BEFORE) -> Iterator[str]:
    """Yield code spans that begin with the program's name; the value of an option may be absent."""
    for span in re.findall(r"`([^`]+)`", without_fences(text)):
        yield from lines_of(" ".join(span.split()), before)


def without_fences(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def lines_of(block: str, before: re.Pattern[str] = BEFORE) -> Iterator[str]:
    for line in block.replace("\\\n", " ").splitlines():
        if before.match(line.strip()):
            yield before.sub("", line.strip())


def words_of(line: str) -> list[str]:
    """Return the arguments of one command, up to an operator of the shell."""
    found: list[str] = []
    for word in shlex.split(line.translate(PLACEHOLDERS), comments=True):
        if word in END:
            break
        found.append(word.removesuffix(";"))
        if word.endswith(";"):
            break
    return found


@cache
def command(name: str) -> Any:
    return load_command(name) if name else build()


def problem(arguments: list[str], *, whole: bool = True) -> str | None:
    """Return the error of a command, which may be incomplete; None if it can be typed."""
    if arguments[0].startswith("-"):
        known = [option for one in command("").params for option in one.opts]
        return None if arguments[0] in [*known, *HELP] else f"there is no {arguments[0]}"
    if arguments[0] not in COMMANDS:
        return f"there is no command {arguments[0]}"
    groups = getattr(command(arguments[0]), "commands", None)
    if groups is None:
        return problem_of(command(arguments[0]), arguments[1:], whole=whole)
    if len(arguments) == 1 or arguments[1] in HELP:
        return "which of the group?" if whole and len(arguments) == 1 else None
    if arguments[1] not in groups:
        return f"{arguments[0]} has no command {arguments[1]}"
    return problem_of(groups[arguments[1]], arguments[2:], whole=whole)


def problem_of(command: Any, arguments: list[str], *, whole: bool) -> str | None:
    """Return the error in the options and arguments of a command."""
    if HELP & set(arguments):
        return None
    value = ["VALUE"] if arguments and arguments[-1].startswith("--") and not whole else []
    try:
        parser = command.make_parser(command.context_class(command))
        found, left, _ = parser.parse_args([*arguments, *value])
    except typer.TyperException as error:
        return error.format_message()
    lacking = [one.name for one in command.params if one.required and found.get(one.name) is None]
    if whole and (lacking or left):
        return f"lacks {lacking}" if lacking else f"does not take {left}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_the_page_can_be_typed(page: Path) -> None:
    text = page.read_text()
    problems = [(line, problem(words_of(line))) for line in typed(text)]
    problems += [(line, problem(words_of(line), whole=False)) for line in mentioned(text)]
    assert [one for one in problems if one[1]] == []
    assert [line for line in typed(text) if has_command_in_comment(line)] == []


def has_command_in_comment(line: str) -> bool:
    """Return True if a command stands behind the comment of another one, as after a rewrap."""
    return re.search(r"#.*\bswitchmark [a-z]", line) is not None


def test_command_in_a_comment_is_detected() -> None:
    """A rewrapped block of the README had six commands in five lines."""
    assert has_command_in_comment("doctor  # what this machine can do .venv/bin/switchmark plan")
    assert not has_command_in_comment("doctor  # what this machine can do with switchmark")


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_examples_of_help_can_be_typed(name: str) -> None:
    examples = [re.split(" {2,}", line)[0] for line in lines_of(command(name).epilog)]
    problems = [(line, problem(words_of(line))) for line in examples]  # without their descriptions
    assert problems
    assert [one for one in problems if one[1]] == []


def test_misspelt_command_is_detected() -> None:
    text = "```bash\nsudo switchmark run quick --resme \\\n  --quiet\n```\nor `switchmark shwo`"
    assert [problem(words_of(line)) for line in typed(text)] == [
        "No such option: --resme (Possible options: --resume, --set, --verbose)",
    ]
    assert [problem(words_of(line)) for line in mentioned(text)] == ["there is no command shwo"]
    assert problem(words_of("pool serv")) == "pool has no command serv"
    assert problem(["run"]) == "lacks ['campaign']"
    assert problem(["run", "quick", "--set"]) == "Option '--set' requires an argument."
    assert problem(["run", "quick", "--set"], whole=False) is None
    assert problem(words_of("compare RUN RUN --json | jq .  # pretty")) is None
