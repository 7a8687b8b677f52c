"""Asks the engine whether it would accept command lines, before anything starts.

So each rule of the command line exists once, in the engine.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from switchmark.errors import UnavailableError

TIMEOUT_S = 30.0


def command_line_errors(engine: Path, commands: Sequence[Sequence[str]]) -> list[str]:
    """Return the engine's error for each command line (without the program's name), empty if it is
    accepted. Raises UnavailableError for a program that gives no such answer."""
    if not commands:
        return []
    text = "".join("\t".join(words) + "\n" for words in commands)
    try:
        done = subprocess.run(
            [engine, "check"], input=text, capture_output=True, text=True, timeout=TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{engine}: cannot be asked: {error}") from None
    errors = done.stdout.splitlines()
    if done.returncode != 0 or len(errors) != len(commands):
        reason = done.stderr.strip().rpartition("\n")[2] or f"{len(errors)} lines"
        raise UnavailableError(
            f"{engine}: does not check {len(commands)} command lines ({reason})",
            remedy="build the engine of "
            "this version of switchmark, or set SWITCHMARK_TRAFFIC to it",
        )
    return errors
