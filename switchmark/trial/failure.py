"""Why a trial failed, in one line."""

from __future__ import annotations

import subprocess
import traceback
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from switchmark.errors import SwitchmarkError
from switchmark.formatting import encodable

# What the machine, its programs and their answers can cause; all else is a fault of the bench.
EXPECTED = (SwitchmarkError, OSError, ValueError, KeyError, subprocess.SubprocessError)


def why(causes: Sequence[str], error: BaseException) -> str:
    """The reason why a trial failed: a dead switch or a failed port of an application goes before
    whatever went wrong after it."""
    seen = one_line(error)
    for cause in causes:
        words = encodable(" ".join(cause.split()))
        if words and words not in seen:
            return f"{words} (seen as: {seen})"
    return seen


def one_line(error: BaseException) -> str:
    """An error with its notes, on one line."""
    if isinstance(error, ValidationError):  # its own text speaks to programmers
        what = "; ".join(problem["msg"] for problem in error.errors())
    else:
        what = f"an answer lacks {error}" if isinstance(error, KeyError) else str(error)
    if not isinstance(error, EXPECTED):
        what = f"a fault of the bench itself: {type(error).__name__}: {what} ({_place(error)})"
    text = " ".join("; ".join([what, *getattr(error, "__notes__", [])]).split())
    return encodable(text) or type(error).__name__


def _place(error: BaseException) -> str:
    """Where in the program the error was raised, for those who repair it."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "nowhere"
