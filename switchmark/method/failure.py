"""Why a trial failed, in one line."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError


def why(causes: Sequence[str], error: BaseException) -> str:
    """A dead switch, or an application's port that failed, is the reason for whatever went wrong
    after it."""
    seen = one_line(error)
    for cause in causes:
        words = " ".join(cause.split())
        if words and words not in seen:
            return f"{words} (seen as: {seen})"
    return seen


def one_line(error: BaseException) -> str:
    """An error with its notes, as one line."""
    if isinstance(error, ValidationError):  # its own text speaks to programmers
        what = "; ".join(problem["msg"] for problem in error.errors())
    else:
        what = f"an event lacks {error}" if isinstance(error, KeyError) else str(error)
    text = " ".join("; ".join([what, *getattr(error, "__notes__", [])]).split())
    return text or type(error).__name__
