"""Every command of ours that a reader of the documentation would type is one that there is."""

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
# What may stand before the program's name on a line.
BEFORE = re.compile(r"^(?:\$ )?(?:sudo )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?switchmark ")
HELP = {"--help", "-h"}
PLACEHOLDERS = str.maketrans("", "", "[]()")
END = {"|", "||", "&&", ";", ">", ">>", "2>", "<", "#", "&", "..."}


def typed(text: str, before: re.Pattern[str] = BEFORE) -> Iterator[str]:
    """The lines of blocks of code, fenced or indented, that begin with the program's name."""
    for block in re.findall(r"^ *```[a-z]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        yield from lines_of(block, before)
    indented = "\n".join(re.findall(r"^ {4}.*$", without_fences(text), re.MULTILINE))
    yield from lines_of(indented, before)


def mentioned(text: str, before: re.Pattern[str] = BEFORE) -> Iterator[str]:
    """Spans of code that begin with the program's name; the value of an option may be left out."""
    for span in re.findall(r"`([^`]+)`", without_fences(text)):
        yield from lines_of(" ".join(span.split()), before)


def without_fences(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def lines_of(block: str, before: re.Pattern[str] = BEFORE) -> Iterator[str]:
    for line in block.replace("\\\n", " ").splitlines():
        if before.match(line.strip()):
            yield before.sub("", line.strip())


def words_of(line: str) -> list[str]:
    """The arguments of one command, up to what the shell does with them."""
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


def problem(words: list[str], *, whole: bool = True) -> str | None:
    """What is wrong with a command, which may be there in part; None when it can be typed."""
    if words[0].startswith("-"):
        known = [option for one in command("").params for option in one.opts]
        return None if words[0] in [*known, *HELP] else f"there is no {words[0]}"
    if words[0] not in COMMANDS:
        return f"there is no command {words[0]}"
    groups = getattr(command(words[0]), "commands", None)
    if groups is None:
        return problem_of(command(words[0]), words[1:], whole=whole)
    if len(words) == 1 or words[1] in HELP:
        return "which of the group?" if whole and len(words) == 1 else None
    if words[1] not in groups:
        return f"{words[0]} has no command {words[1]}"
    return problem_of(groups[words[1]], words[2:], whole=whole)


def problem_of(asked: Any, words: list[str], *, whole: bool) -> str | None:
    """What is wrong with the options and arguments of a command."""
    if HELP & set(words):
        return None
    value = ["VALUE"] if words and words[-1].startswith("--") and not whole else []
    try:
        parser = asked.make_parser(asked.context_class(asked))
        found, left, _ = parser.parse_args([*words, *value])
    except typer.TyperException as error:
        return error.format_message()
    lacking = [one.name for one in asked.params if one.required and found.get(one.name) is None]
    if whole and (lacking or left):
        return f"lacks {lacking}" if lacking else f"does not take {left}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_can_be_typed_as_they_stand(page: Path) -> None:
    text = page.read_text()
    told = [(line, problem(words_of(line))) for line in typed(text)]
    told += [(line, problem(words_of(line), whole=False)) for line in mentioned(text)]
    assert [one for one in told if one[1]] == []


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_the_examples_of_help_can_be_typed(name: str) -> None:
    examples = [re.split(" {2,}", line)[0] for line in lines_of(command(name).epilog)]
    told = [(line, problem(words_of(line))) for line in examples]  # (less what they are for)
    assert told
    assert [one for one in told if one[1]] == []


def test_what_is_misspelt_is_seen() -> None:
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
