"""The undo action that a fault returns."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tests.faults.bench import Job

Undo = Callable[[], object]
Inflict = Callable[[Job, random.Random], Undo | None]  # None: the fault had no target


def for_good() -> None:
    """Undo nothing: the fault is permanent."""


def send(pid: int, number: signal.Signals) -> Undo | None:
    """Send a signal; only SIGSTOP is undone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return None
    return partial(_continue, pid) if number is signal.SIGSTOP else for_good


def _continue(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def run(*words: str) -> bool:
    """Run a command; return True if it succeeded."""
    return subprocess.run(words, check=False, capture_output=True).returncode == 0
