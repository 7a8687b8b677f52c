"""The output of a short command outside a session: a version, or whether something answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def stdout_of(args: Sequence[str | Path], timeout_s: float = 10.0) -> str | None:
    """The output in English, without blanks around it; None where the command cannot be run, fails
    or takes too long."""
    done = _run(args, subprocess.DEVNULL, os.environ, timeout_s)
    return done.stdout.strip() if done and done.returncode == 0 else None


def output_of(args: Sequence[str | Path], env: Mapping[str, str] | None = None) -> str:
    """The output in English on both streams, however the command ends; empty when it cannot be
    run."""
    done = _run(args, subprocess.STDOUT, env or os.environ, 10.0)
    return done.stdout if done else ""


def _run(
    args: Sequence[str | Path], stderr: int, env: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            args,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env={**env, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
