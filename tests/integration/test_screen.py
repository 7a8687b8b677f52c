"""Commands on terminals of several widths: no line is too wide, or cut inside a word."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
WIDTHS = (80, 100, 120)
_WIDE = 400
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TRIAL = ["trial", "linux-bridge", "--duration", "1s", "--private"]


def on_terminal(
    arguments: list[str],
    width: int,
    *,
    interrupt_after_s: float | None = None,
    resize_to: int | None = None,
    **environment: str,
) -> tuple[int, str]:
    """The exit code of a command on a terminal of this width, and all that it wrote."""
    main, side = pty.openpty()
    _resize(main, width)
    variables = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [sys.executable, "-m", "switchmark", *arguments],
        stdin=side, stdout=side, stderr=side, start_new_session=True,
        env={**variables, "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(side)
    written, began_s = b"", time.monotonic()
    while True:
        try:
            part = os.read(main, 65_536)
        except OSError:  # the command has closed the terminal
            break
        written += part
        if interrupt_after_s is not None and time.monotonic() - began_s > interrupt_after_s:
            process.send_signal(signal.SIGINT)
            interrupt_after_s = None
        if resize_to is not None and b"trial" in written:
            _resize(main, resize_to)
            process.send_signal(signal.SIGWINCH)
            resize_to = None
    os.close(main)
    return process.wait(), written.decode()


def _resize(terminal: int, width: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))


def lines_of(written: str) -> list[str]:
    """The lines on the screen, also those that were replaced later."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", _ESCAPES.sub("", written))]


def words_of(lines: list[str]) -> set[str]:
    """The words, with figures made equal, since they change from one call to the next."""
    return {re.sub(r"[0-9.,]+", "0", word) for line in lines for word in line.split()}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder of a trial that ran on a wide terminal."""
    folder = tmp_path_factory.mktemp("screen") / "r s"
    code, written = on_terminal([*_TRIAL, "--results", str(folder)], _WIDE)
    assert code == 0, written
    (folder / "written").write_text(written)
    return folder


COMMANDS = (
    ["plan", "quick"],
    ["list"],
    ["doctor", "--watch", "0"],
    ["show", "--results", "."],
    ["show", "--full", "--results", "."],
    ["--help"],
    ["run", "--help"],
    ["plan", "no-such-campaign"],  # an error
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_line_is_cut(
    arguments: list[str], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(results)  # so that no path is wider than the screen
    _, wide = on_terminal(arguments, _WIDE)
    for width in WIDTHS:
        code, written = on_terminal(arguments, width)
        lines = lines_of(written)
        assert code in (0, 2, 3), written
        too_wide = [line for line in lines if len(line) > width]
        assert not too_wide, (width, too_wide)
        unknown = words_of(lines) - words_of(lines_of(wide)) - {"\\"}
        assert not {word for word in unknown if not set(word) <= set("─")}, (width, unknown)


@pytest.mark.parametrize("width", WIDTHS)
def test_live_view_fits_the_screen(
    width: int, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(results)
    code, written = on_terminal([*_TRIAL, "--results", "."], width)
    lines = lines_of(written)
    assert code == 0, written
    assert not [line for line in lines if len(line) > width]
    assert any(re.match(r"trial 1 of 2, (about|a few)", line) for line in lines), lines
    assert not any(re.match(r"linux-bridge, .*: .*pps, ", line) for line in lines), "a trial's line"


def test_narrow_dumb_and_resized_terminals_are_survived(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(results)
    trial = [*_TRIAL, "--results", "."]
    assert on_terminal(trial, 7)[0] == 0
    assert on_terminal(trial, 120, resize_to=40)[0] == 0
    code, written = on_terminal(trial, 80, TERM="dumb")
    assert code == 0 and "\x1b" not in written
    code, written = on_terminal(["show", "--results", "."], 80, NO_COLOR="1")
    assert code == 0 and not re.search(r"\x1b\[[0-9;]*3[0-9]m", written)


def test_interrupted_view_leaves_the_terminal_in_order(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(results)
    long = ["trial", "linux-bridge", "-t", "60s", "--private", "--results", ".", "--no-baseline"]
    code, written = on_terminal(long, 80, interrupt_after_s=6.0)
    assert code == 130
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h"), "the cursor is back"
    assert lines_of(written)[-2].startswith("switchmark: interrupted")
