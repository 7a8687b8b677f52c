"""Text from elsewhere, made fit for a terminal: control characters become visible.

Campaigns, records, switches and far hosts name things; an escape sequence among the names could
rewrite what the person at the terminal believes to have read.
"""

from __future__ import annotations

import re

# C0 but tab and newline, DEL, C1, and the marks that turn the direction of writing.
CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
_CONTROL = re.compile(CONTROLS)


def storable(text: str) -> str:
    """The text without what has no encoding: names of files may hold it, and so may strings of
    other programs' JSON, but no record can."""
    return text.encode(errors="backslashreplace").decode()


def printable(text: str) -> str:
    """The text with every control character but tab and newline written as its code (`\\x1b`)."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)
