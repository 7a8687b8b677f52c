"""The factor of the timeouts of guests on a slow host, such as an emulated one."""

from __future__ import annotations

import os

from switchmark.errors import UsageError

SETTING = "SWITCHMARK_VM_PATIENCE"
MOST = 1000.0


def patience() -> float:
    """Return the factor by which guests may start and answer more slowly than usual; 1 by default.
    Raises UsageError."""
    text = os.environ.get(SETTING) or "1"
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1.0 <= factor <= MOST:
        raise UsageError(f"{SETTING}={text}: not a number from 1 to {MOST:g}", remedy="correct it")
    return factor
