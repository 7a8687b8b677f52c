"""Short commands outside a session: a version, or whether something answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_NOT_RUN = (OSError, subprocess.TimeoutExpired)


def stdout_of(args: Sequence[str | Path], timeout_s: float = 10.0) -> str | None:
    """The output in English, without blanks around it; None where the command cannot be run, fails
    or takes too long."""
    try:
        done = finished(args, timeout_s)
    except _NOT_RUN:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def output_of(args: Sequence[str | Path], env: Mapping[str, str] | None = None) -> str:
    """The output in English on both streams, however the command ends; empty when it cannot be
    run."""
    try:
        return finished(args, stderr=subprocess.STDOUT, env=env).stdout
    except _NOT_RUN:
        return ""


def finished(
    args: Sequence[str | Path],
    timeout_s: float = 10.0,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    umask: int = -1,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in English; with a umask of 0 or more, under that. Raises OSError,
    subprocess.TimeoutExpired."""
    return subprocess.run(
        args,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
        env={**(env or os.environ), "LC_ALL": "C"},
        cwd=cwd,
        umask=umask,
    )
