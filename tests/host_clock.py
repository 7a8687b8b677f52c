"""Start a process on a host whose clock is wrong: libfaketime replaces the calls that read the
date.

Tests that need it are skipped if it is not installed (apt: libfaketime).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _library() -> Path:
    """Return the path of the library. Skip the test if it is not installed."""
    chosen = os.environ.get("SWITCHMARK_FAKETIME")
    libraries = (
        [Path(chosen)] if chosen else sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    )
    if not libraries:
        pytest.skip("libfaketime is not installed (apt: libfaketime)")
    return libraries[0]


def remove_shared(pid: int) -> None:
    """Remove the files that the library of a killed process left in /dev/shm."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        Path("/dev/shm", name).unlink(missing_ok=True)


def clock_ahead(seconds: float) -> dict[str, str]:
    """Return the environment of a process whose clocks, and those of its children, are ahead. This
    includes the monotonic clock, which has a meaning only inside a process here."""
    return {
        "LD_PRELOAD": str(_library()),
        "FAKETIME": f"{seconds:+.0f}s",
    }
