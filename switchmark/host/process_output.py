"""Runs short commands, and checks and shortens the output of programs.

The output of another program is untrusted until it is checked: the program may be of another
version, or broken. An unexpected form ends the trial with one line that names the program.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from switchmark.errors import TrialFailed

_NOT_RUN = (OSError, subprocess.TimeoutExpired)
# `docker run` prints this line below its error.
_HINT = re.compile(r"(See|Run) 'docker .*--help'.*|Usage:\s+docker .*")
# The heading or the first line of a stack trace; VPP prints the name of its daemon in front.
_TRACE = re.compile(r"(?im)^(?:\S+\[\d+\]: )?(?:stack trace|#0\s)")
NOTHING = "it printed nothing"
MOST_FRAMES = 2**64  # the largest value of a counter, plus 1


def stdout_of(args: Sequence[str | Path], timeout_s: float = 10.0) -> str | None:
    """Return the output in English without blanks around it; None if the command cannot be run,
    fails or takes too long."""
    try:
        done = run_command(args, timeout_s)
    except _NOT_RUN:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def output_of(args: Sequence[str | Path], env: Mapping[str, str] | None = None) -> str:
    """Return the output in English of both streams, also if the command fails; empty if it cannot
    be run."""
    try:
        return run_command(args, stderr=subprocess.STDOUT, env=env).stdout
    except _NOT_RUN:
        return ""


def run_command(
    args: Sequence[str | Path],
    timeout_s: float = 10.0,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    umask: int = -1,
) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends, with English messages. A umask of 0 or more is set for it.

    Raises OSError, subprocess.TimeoutExpired."""
    return subprocess.run(
        args,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
        env={**(env or os.environ), "LC_ALL": "C"},
        cwd=cwd,
        umask=umask,
    )


def last_lines(text: str, count: int = 3) -> str:
    """Return the last lines of a text in one line, without a stack trace that follows them."""
    return " / ".join(_useful_lines(_TRACE.split(text)[0])[-count:]) or NOTHING


def last_line(text: str, otherwise: str = "") -> str:
    """Return the last line that is neither empty nor a hint; `otherwise` if there is no such
    line."""
    return (_useful_lines(text) or [otherwise])[-1]


def _useful_lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not _HINT.fullmatch(line)]


@contextmanager
def parsing(name: str) -> Iterator[None]:
    """Within this context, the output of the program `name` is parsed.

    Raises TrialFailed instead of the errors that an unexpected form causes."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise TrialFailed(f"{name}: its output has an unknown form") from None


def parse_json(name: str, text: str | bytes) -> Any:
    """Parse the JSON output of the program `name`. Raises TrialFailed if it is not JSON."""
    with parsing(name):
        return json.loads(text)


def refuse_constant(text: str) -> None:
    """Raise ValueError for NaN and infinities: a `parse_constant` of JSON."""
    raise ValueError(f"{text} is not a number")


def parse_counter(value: object) -> int:
    """Return the value of a counter that is a number or text. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError("a counter is an integer")
    number = int(value)
    if not 0 <= number < MOST_FRAMES:
        raise ValueError("a counter is not negative and fits into 64 bits")
    return number
