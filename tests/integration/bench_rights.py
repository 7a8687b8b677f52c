"""Checks the capabilities that a bench, its agent and all their processes gave up."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from switchmark.host.kernel.capabilities import NEVER

GIVEN_UP = sum(1 << one for one in NEVER.values())


def sets_of(pid: int) -> list[dict[str, int]]:
    """Return the capabilities of each thread; threads may end meanwhile."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):
            capabilities = re.findall(r"^(Cap\w+):\t(\w+)$", path.read_text(), re.M)
            found.append({name: int(value, 16) for name, value in capabilities})
    return found
