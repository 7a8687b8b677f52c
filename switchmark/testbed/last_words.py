"""The last output of a program on standard error: the part that says why it ended."""

from __future__ import annotations

import re

# `docker run` says this below its error.
_HINT = re.compile(r"(See|Run) 'docker .*--help'.*|Usage:\s+docker .*")
# A trace of calls: the heading of one, or its first line, with a daemon's name in front (VPP).
_TRACE = re.compile(r"(?im)^(?:\S+\[\d+\]: )?(?:stack trace|#0\s)")
NOTHING = "it said nothing"


def last_words(text: str, count: int = 3) -> str:
    """The last lines of a text on one line, without the stack trace that may follow them."""
    return " / ".join(_telling(_TRACE.split(text)[0])[-count:]) or NOTHING


def last_line(text: str, otherwise: str = "") -> str:
    """The last line that says something; `otherwise` where there is none."""
    return (_telling(text) or [otherwise])[-1]


def _telling(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not _HINT.fullmatch(line)]
