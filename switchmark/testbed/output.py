"""The output of a short command outside a session: a version, or whether something answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


def stdout_of(args: Sequence[str | Path], timeout_s: float = 10.0) -> str | None:
    """The output in English, without blanks around it; None where the command cannot be run, fails
    or takes too long."""
    try:
        done = subprocess.run(
            args,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
