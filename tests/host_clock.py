"""A process whose host's clock is wrong: libfaketime answers it when it asks for the date.

Tests that need it skip by name where it is not installed (apt: libfaketime).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _library() -> Path:
    """Skips the test where there is none."""
    asked = os.environ.get("SWITCHMARK_FAKETIME")
    found = (
        [Path(asked)] if asked else sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    )
    if not found:
        pytest.skip("libfaketime is not installed (apt: libfaketime)")
    return found[0]


def remove_shared(pid: int) -> None:
    """What the library of a process that was killed has left in /dev/shm."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        Path("/dev/shm", name).unlink(missing_ok=True)


def clock_ahead(seconds: float) -> dict[str, str]:
    """The environment of a process, and of its children, whose clocks are so far ahead, the
    monotonic one among them: it has no meaning beyond a process here."""
    return {
        "LD_PRELOAD": str(_library()),
        "FAKETIME": f"{seconds:+.0f}s",
    }
