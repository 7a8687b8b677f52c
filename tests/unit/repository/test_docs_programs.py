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

# Text that may precede the program on a line; the program itself is kept.
BEFORE = re.compile(
    r"^(?:\$ )?(?:sudo )?(?:ip netns exec \S+ )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?"
    r"(?=(?:bench|tools)/|switchmark-traffic )"
)


class Parsed(Exception):
    """The program has reached the parsing of its arguments."""


@cache
def parser_of(program: Path) -> argparse.ArgumentParser:
    """Load a Python program up to the parsing of its arguments; return the parser."""
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
    for name in set(sys.modules) - modules:  # other programs also have modules `table` and `runs`
        if str(program.parent) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    return found[0]


def problem(arguments: list[str], *, whole: bool = True) -> str | None:
    """Return the error of a command, which may be incomplete; None if it can be typed."""
    if arguments[0] == "switchmark-traffic":
        return engine_problem(arguments[1:])
    program = ROOT / arguments[0]
    if not program.exists():
        return f"there is no {arguments[0]}"
    if len(arguments) == 1 and (not whole or program.is_dir()):
        return None
    text = program.read_text()
    if "argparse" in text:
        return arguments_problem(parser_of(program), arguments[1:], whole=whole)
    options = [word.partition("=")[0] for word in arguments[1:] if word.startswith("-")]
    unknown = [one for one in options if not re.search(rf"(?<![\w-]){one}(?![\w-])", text)]
    return f"{arguments[0]} does not speak of {unknown[0]}" if unknown else None


def arguments_problem(
    parser: argparse.ArgumentParser, arguments: list[str], *, whole: bool
) -> str | None:
    """Return the program's error message for these arguments."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            argparse.ArgumentParser.parse_args(parser, arguments)
    except SystemExit as end:
        message = output.getvalue().strip().rpartition("\n")[2]
        unfinished = not whole and re.search(r"required|expected|invalid choice: '[A-Z]+'", message)
        return None if end.code == 0 or unfinished else message
    return None


def engine_problem(arguments: list[str]) -> str | None:
    """Return the engine's error message: it reads options up to --help, and refuses unknown
    ones."""
    if not arguments or arguments[0].isupper() or HELP & set(arguments):
        return None
    if arguments[0] in {"list", "cache-line", "check"}:
        return None if set(arguments[1:]) <= {"--json", "CORES"} else f"{arguments} does not fit"
    done = subprocess.run(
        [find_engine(), *arguments, "--help"], capture_output=True, text=True, check=False
    )
    return done.stderr.strip() or None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_programs_can_be_typed(page: Path) -> None:
    text = page.read_text()
    problems = [(line, problem(words_of(line))) for line in typed(text, BEFORE)]
    problems += [(line, problem(words_of(line), whole=False)) for line in mentioned(text, BEFORE)]
    assert [one for one in problems if one[1]] == []


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
def test_misspelt_command_is_detected(line: str, wrong: str) -> None:
    assert wrong in (problem(words_of(line)) or "")


def test_engine_checks_its_commands() -> None:
    try:
        find_engine()
    except SwitchmarkError as error:
        pytest.skip(str(error))
    assert problem(words_of("switchmark-traffic sender --port null: --rate 1Mpps")) is None
    assert "--rtae" in (problem(words_of("switchmark-traffic sender --rtae 5")) or "")
    assert "--burst" in (problem(words_of("switchmark-traffic sender --burst many")) or "")
