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
        if not os.access(path, os.X_OK) or not path.is_file():
            raise UnavailableError(
                f"SWITCHMARK_TRAFFIC={chosen}: not an executable file; name the engine's program"
            )
        return path
    in_path = shutil.which(NAME)
    places = [
        Path(sys.executable).parent / NAME,
        *([Path(in_path)] if in_path else []),
        Path("build") / NAME,
        Path("build/engine") / NAME,
    ]
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return place.resolve()
    raise UnavailableError(
        f"{NAME}: not found beside {sys.executable}, in PATH or in ./build;"
        " build it with ./quickstart --setup-only, or set SWITCHMARK_TRAFFIC to its path"
    )


def engine_version(engine: Path) -> str | None:
    """The version that the engine prints; None when it prints none."""
    told = stdout_of([engine, "--version"])
    return told.splitlines()[0] if told else None
