"""tools/tutorial: it runs the commands of a page, and writes output and pictures into the page."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import pytest

from tests.unit.browser import chromium

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-docs/bin/python"
PAGE = """# Page

<!-- tutorial: file note.txt -->
```text
first line
```

<!-- tutorial: run expect=first -->
```console
$ cat note.txt
old output
```

<!-- tutorial: run exit=3 tail=2 -->
```console
$ seq 5; \\
  exit 3
```

<!-- tutorial: run columns=33 -->
```console
$ stty size
```

<!-- tutorial: machine -->
*old*

End.
"""

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/tutorials").glob("*.md"))]

needs_terminal = pytest.mark.skipif(
    not PYTHON.exists(), reason="no terminal emulator in .venv-docs (tools/docs-site --setup)"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tutorial_contains_outputs_and_pictures(page: Path) -> None:
    """The output of tools/tutorial is in the page, also in new pages."""
    tool = runpy.run_path(str(ROOT / "tools/tutorial"))
    text = page.read_text()
    lines = text.splitlines()
    directives = list(tool["parse_directives"](lines))
    assert directives
    for directive in directives:
        block = lines[directive.first : directive.end]
        if directive.name == "run":
            commands = [line for shown, _ in tool["commands_of"](block) for line in shown]
            assert len(block) > len(commands) > 0, directive
        for name in (directive.options.get("live"), directive.operand):
            if name and name.endswith(".png"):
                assert (page.parent / name).is_file(), name
                assert f"]({name})" in text, name


def run(page: Path, text: str) -> subprocess.CompletedProcess[str]:
    page.write_text(text)
    return subprocess.run(
        [PYTHON, ROOT / "tools/tutorial", page], capture_output=True, text=True, check=False
    )


@needs_terminal
def test_tutorial_writes_output_into_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    ran = run(page, PAGE)
    assert ran.returncode == 0, ran.stderr
    text = page.read_text()
    assert "$ cat note.txt\nfirst line\n```" in text
    assert "$ seq 5; \\\n  exit 3\n[...]\n4\n5\n```" in text
    assert "$ stty size\n40 33\n```" in text
    assert "old" not in text
    assert "All commands together took 1 minute.*\n\nEnd.\n" in text
    assert run(page, text).returncode == 0
    assert page.read_text() == text


@needs_terminal
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("expect=first", "expect=second", "page.md:8: the output does not match second"),
        ("exit=3", "exit=0", "page.md:14: exit code 3, not 0"),
        ("tutorial: machine", "tutorial: engine", "engine is not a directive"),
        ("$ cat", "cat", "page.md:8: the block has no line"),
    ],
)
def test_tutorial_with_unexpected_result_stays_as_it_was(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    page = tmp_path / "page.md"
    text = PAGE.replace(old, new)
    ran = run(page, text)
    assert ran.returncode == 1
    assert message in ran.stderr
    assert page.read_text() == text


@needs_terminal
@pytest.mark.skipif(chromium() is None, reason="no chromium here (apt install chromium)")
@pytest.mark.xdist_group("browser")
def test_tutorial_takes_pictures_of_terminal_and_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    ran = run(
        page,
        "<!-- tutorial: run live=page/live.png -->\n```console\n"
        "$ printf '\\033[31mred\\033[0m'; sleep 1; echo '<p id=a>text</p>' > a.html\n```\n\n"
        "<!-- tutorial: shot page/part.png of=*.html select=#a -->\n![part](page/part.png)\n",
    )
    assert ran.returncode == 0, ran.stderr
    for name in ("live.png", "part.png"):
        assert (tmp_path / "page" / name).read_bytes().startswith(b"\x89PNG")
