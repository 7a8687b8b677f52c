"""What a bench, or its agent on another host, and all that it starts, may never do."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from switchmark.host.kernel.capabilities import NEVER

GIVEN_UP = sum(1 << one for one in NEVER.values())


def sets_of(pid: int) -> list[dict[str, int]]:
    """The capabilities of each thread (some end while they are looked at)."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):
            told = re.findall(r"^(Cap\w+):\t(\w+)$", path.read_text(), re.M)
            found.append({name: int(value, 16) for name, value in told})
    return found
