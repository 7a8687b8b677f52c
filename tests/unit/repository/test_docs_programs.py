"""Every command of the engine, of bench/ and of tools/ in the documentation can be typed."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from switchmark.engine.binary import find_engine
from switchmark.errors import SwitchmarkError
from tests.unit.repository.test_docs_commands import HELP, PAGES, ROOT, mentioned, typed, words_of

# What may stand before the program on a line; the program itself is kept.
BEFORE = re.compile(
    r"^(?:\$ )?(?:sudo )?(?:ip netns exec \S+ )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?"
    r"(?=(?:bench|tools)/|switchmark-traffic )"
)


class Parsed(Exception):
    """A program has come to where it reads its arguments."""


@cache
def parser_of(program: Path) -> argparse.ArgumentParser:
    """How a program of Python reads its arguments: it is loaded, and stopped there."""
    found: list[argparse.ArgumentParser] = []

    def stop(self: argparse.ArgumentParser, *_: object) -> None:
        found.append(self)
        raise Parsed

    modules, path = set(sys.modules), list(sys.path)
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Parsed):
        patch.setattr(sys, "argv", [str(program)])
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        patch.syspath_prepend(program.parent)
        runpy.run_path(str(program), run_name="__main__")
    sys.path[:] = path
    for name in set(sys.modules) - modules:  # `table` and `runs` are names of others, too
        if str(program.parent) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    return found[0]


def problem(words: list[str], *, whole: bool = True) -> str | None:
    """What is wrong with a command, which may be there in part; None when it can be typed."""
    if words[0] == "switchmark-traffic":
        return engine_problem(words[1:])
    program = ROOT / words[0]
    if not program.exists():
        return f"there is no {words[0]}"
    if len(words) == 1 and (not whole or program.is_dir()):
        return None
    text = program.read_text()
    if "argparse" in text:
        return arguments_problem(parser_of(program), words[1:], whole=whole)
    options = [word.partition("=")[0] for word in words[1:] if word.startswith("-")]
    unknown = [one for one in options if not re.search(rf"(?<![\w-]){one}(?![\w-])", text)]
    return f"{words[0]} does not speak of {unknown[0]}" if unknown else None


def arguments_problem(
    parser: argparse.ArgumentParser, words: list[str], *, whole: bool
) -> str | None:
    """What the program would say to these arguments."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            argparse.ArgumentParser.parse_args(parser, words)
    except SystemExit as end:
        message = said.getvalue().strip().rpartition("\n")[2]
        unfinished = not whole and re.search(r"required|expected|invalid choice: '[A-Z]+'", message)
        return None if end.code == 0 or unfinished else message
    return None


def engine_problem(words: list[str]) -> str | None:
    """What the engine would say: it reads the options up to --help, and refuses what is none."""
    if not words or words[0].isupper() or HELP & set(words):
        return None
    if words[0] in {"list", "cache-line", "check"}:
        return None if set(words[1:]) <= {"--json", "CORES"} else f"{words} does not fit"
    told = subprocess.run(
        [find_engine(), *words, "--help"], capture_output=True, text=True, check=False
    )
    return told.stderr.strip() or None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_programs_can_be_typed_as_they_stand(page: Path) -> None:
    text = page.read_text()
    told = [(line, problem(words_of(line))) for line in typed(text, BEFORE)]
    told += [(line, problem(words_of(line), whole=False)) for line in mentioned(text, BEFORE)]
    assert [one for one in told if one[1]] == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("bench/cost --cuont 3", "unrecognized arguments: --cuont"),
        ("bench/cost --only plans", "invalid choice"),
        ("bench/costs", "there is no bench/costs"),
        ("tools/soak --trails 9", "does not speak of --trails"),
        ("bench/engine/builds.py", "required"),
    ],
)
def test_what_is_misspelt_is_seen(line: str, wrong: str) -> None:
    assert wrong in (problem(words_of(line)) or "")


def test_the_engine_is_asked() -> None:
    try:
        find_engine()
    except SwitchmarkError as error:
        pytest.skip(str(error))
    assert problem(words_of("switchmark-traffic sender --port null: --rate 1Mpps")) is None
    assert "--rtae" in (problem(words_of("switchmark-traffic sender --rtae 5")) or "")
    assert "--burst" in (problem(words_of("switchmark-traffic sender --burst many")) or "")
