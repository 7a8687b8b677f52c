"""Finds the traffic engine on this machine, and its version."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.testbed.output import stdout_of

NAME = "switchmark-traffic"


def find_engine() -> Path:
    """The path of the engine: `SWITCHMARK_TRAFFIC`, beside the Python that runs us, in PATH, or in
    ./build. Raises UnavailableError when it is in none of them, or cannot be executed."""
    if chosen := os.environ.get("SWITCHMARK_TRAFFIC"):
        path = Path(chosen).resolve()
        if shutil.which(path) is None:
            raise UnavailableError(
                f"SWITCHMARK_TRAFFIC={chosen}: not an executable file; name the engine's program"
            )
        return path
    beside = Path(sys.executable).parent / NAME
    for place in (beside, NAME, f"build/{NAME}", f"build/engine/{NAME}"):
        if found := shutil.which(place):
            return Path(found).resolve()
    raise UnavailableError(
        f"{NAME}: not found beside {sys.executable}, in PATH or in ./build;"
        " build it with ./quickstart --setup-only, or set SWITCHMARK_TRAFFIC to its path"
    )


def engine_version(engine: Path) -> str | None:
    """The version that the engine prints; None when it prints none."""
    told = stdout_of([engine, "--version"])
    return told.splitlines()[0] if told else None
