"""tools/words: each pattern finds the sentences that it is for, and accepts plain ones."""

# words: off (this file holds examples of both)

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


def load() -> ModuleType:
    loader = SourceFileLoader("words_tool", str(ROOT / "tools/words"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


TOOL = load()


def patterns(source: str, path: str = "page.md") -> list[str]:
    return [finding.pattern for finding in TOOL.search_source(path, source)]


FOUND_IN_PAGES = [
    ("Who reads one meanwhile has the old one.", "headless-clause"),
    ("Files that are replaced: who reads one has the old content.", "headless-clause"),
    ("What a user can mend.", "private-word"),
    ("What is kept of it lasts.", "headless-clause"),
    ("- What stands outside holds for all.", "headless-clause"),
    ("Answer by what was asked.", "headless-clause"),
    ("Refuse a request of who may not send it.", "headless-clause"),
    ("A temporary file is no way in.", "is-no"),
    ("These are no results.", "is-no"),
    ("Comments are searched, too.", "too-at-the-end"),
    ("Comments, too, are searched (and names, too).", "too-at-the-end"),
    ("It is no longer there, and the record is marked, too\n\nNext.", "too-at-the-end"),
    ("The two cannot be told apart.", "programs-speak"),
    ("`doctor` says why.", "programs-speak"),
    ("The kernel never knows it.", "programs-speak"),
    ("A message must say so.", "programs-speak"),
    ("The engine believes the clock.", "programs-speak"),
    ("Each run has a namespace of its own.", "of-its-own"),
    ("A figure of ours stands beside it.", "of-its-own"),
    ("A machine may expect the figures of one that was not measured.", "of-one"),
    ("The folder, where there is none, is made.", "where-for-if"),
    ("It uses huge pages, else 4 KiB pages.", "else-for-otherwise"),
    ("A fall that nobody mended stays.", "private-word"),
]

ACCEPTED_IN_PAGES = [
    "What does a switch cost? Who may read it?",
    "The caller reads the old content or the new content.",
    "A colleague who owns the file has set the mode.",
    "The rate depends on the load, regardless of what the switch does.",
    "At what rate does loss begin?",
    "If there is no such program, the command fails; there are no records.",
    "It is no longer needed, and the difference is no larger than 2 %.",
    "This is too late, and too much at once.",
    "The message names the file. The user knows the name and says yes.",
    "RFC 2544 says that a trial lasts 60 s; the reader who believes it can repeat it.",
    "Each run has its own namespace.",
    "Nothing else is changed; everything else stays, whatever else happens elsewhere.",
    "Two of one hundred trials, one of one version.",
    "The page where the table stands.",
    "## What it measures",
    "| what | how |\n|---|---|\n| `a` | what is measured? |",
    "Run `tell who is no root, too`.",
    "```\nwho reads is no user, else it fails, too.\n```",
    "<!-- words: off -->\nIt is no file, too.\n<!-- words: on -->",
]


@pytest.mark.parametrize(("text", "pattern"), FOUND_IN_PAGES)
def test_page_with_a_private_sentence_is_found(text: str, pattern: str) -> None:
    assert pattern in patterns(text)


@pytest.mark.parametrize("text", ACCEPTED_IN_PAGES)
def test_page_in_plain_words_is_accepted(text: str) -> None:
    assert patterns(text) == []


FOUND_IN_PYTHON = [
    ('"""Whether it is installed."""', ["docstring-clause"]),
    ('def has() -> str:\n    """Why there is no interval."""', ["docstring-clause"]),
    ("x = 1  # of its time", ["comment-of"]),
    ("x = 1  # (it lasts)", ["comment-in-brackets"]),
    ("# A comment of two lines: who\n# reads it is lost.", ["headless-clause"]),
    ('raise ValueError(f"{name} is no port")', ["is-no"]),
    ("told = 1", ["banned-name"]),
    ("for one in rows: print(one)", ["banned-name"]),
    ("def f(what: str) -> None: ...", ["banned-name"]),
    ("def settled() -> None: ...", ["banned-name"]),
    ("class Told: ...", ["banned-name"]),
    ("def test_what_fails_is_named(): ...", ["headless-name"]),
    ("def test_a_name_that_is_no_port_fails(): ...", ["is-no"]),
    ("def test_guests_are_refused_too(): ...", ["too-at-the-end"]),
    (f"def test_{'x' * 56}(): ...", ["long-test-name"]),
]

ACCEPTED_IN_PYTHON = [
    '"""Return True if it is installed."""',
    '"""How fast is a switch?"""',
    "x = 1  # seconds left (of a trial)",
    "# of course this may fail",
    "names = [one.name for one in rows]",
    "row = rows[0].told",
    'key = "is no"',  # fewer words than a message has
    'script = """\nimport os\nx = 1 if y else who is no file\n"""',
    f"def test_{'x' * 55}(): ...",
    "for record in records: print(record)  # noqa: T201 (a tool)",
]


@pytest.mark.parametrize(("source", "expected"), FOUND_IN_PYTHON)
def test_python_with_a_private_text_is_found(source: str, expected: list[str]) -> None:
    assert patterns(source, "module.py") == expected


@pytest.mark.parametrize("source", ACCEPTED_IN_PYTHON)
def test_python_in_plain_words_is_accepted(source: str) -> None:
    assert patterns(source, "module.py") == []


def test_each_pattern_has_an_example() -> None:
    shown = {pattern for _, pattern in FOUND_IN_PAGES}
    shown |= {pattern for _, expected in FOUND_IN_PYTHON for pattern in expected}
    names = {pattern.name for pattern in TOOL.PATTERNS}
    assert shown == names | {"banned-name", "long-test-name"}


def test_c_comments_messages_and_variables_are_searched() -> None:
    source = (
        "/* What is received\n * is no frame. */\n"
        'static int f(int one) {\n  int told = 0, *held;\n  fail("%s: is no " "device\\n");\n}\n'
        "// of the end\nreturn one;\n"
    )
    found = [(finding.line, finding.pattern) for finding in TOOL.search_source("a.c", source)]
    assert found == [
        (1, "headless-clause"), (2, "is-no"), (3, "banned-name"), (4, "banned-name"),
        (5, "is-no"), (7, "comment-of"),
    ]  # fmt: skip


def test_shell_comments_messages_and_help_are_searched() -> None:
    source = (
        '#!/bin/sh\n# for what it is used\ncount=$#\nsay "$x is no file, and stays"\n'
        "cat <<'TEXT'\nusage: It prints the rest, too.\nTEXT\n"
    )
    assert patterns(source, "tool") == ["headless-clause", "is-no", "too-at-the-end"]


def test_a_finding_has_place_pattern_text_and_remedy() -> None:
    (finding,) = TOOL.search_source("docs/a.md", "A page.\n\nThis is\nno page.\n")
    assert str(finding) == 'docs/a.md:3: is-no: "is no page"; "is not a ..."'


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / f"{name}.md").write_text(text)


def test_only_given_paths_are_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, wrong="It is no page.", right="It is not a page.")
    monkeypatch.chdir(tmp_path)
    assert TOOL.main([], tmp_path) == 1
    assert "wrong.md:1: is-no" in capsys.readouterr().out
    assert TOOL.main(["right.md"], tmp_path) == 0
    assert TOOL.main(["wrong.md"], tmp_path) == 1


def test_counts_are_by_pattern_and_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, a="It is no page. It is no file, too.")
    assert TOOL.main(["--count"], tmp_path) == 0
    printed = capsys.readouterr().out
    assert "     2 is-no\n     1 too-at-the-end\n     3 in all\n" in printed
    assert "     3 .: is-no 2, too-at-the-end 1\n" in printed


def test_long_subjects_of_new_commits_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", "-C", tmp_path, *identity, *arguments],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "x" * 73)
    monkeypatch.setattr(TOOL, "LAST_UNCHECKED_COMMIT", git("rev-parse", "HEAD"))
    git("commit", "-q", "--allow-empty", "-m", "y" * 72)
    assert TOOL.search_subjects(tmp_path) == []
    git("commit", "-q", "--allow-empty", "-m", "z" * 73)
    (finding,) = TOOL.search_subjects(tmp_path)
    assert finding.pattern == "long-subject"
