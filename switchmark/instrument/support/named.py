"""Programs and folders of instruments that no package has: an environment variable names them."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cache
from pathlib import Path

from switchmark.model.capabilities import Availability, unavailable

_SHOWN_DIGITS = 12


def named_program(setting: str, program: str) -> Path | None:
    """The program that the variable names, else the one in PATH; None where there is none. A
    variable that names nothing runnable finds nothing."""
    found = shutil.which(os.environ.get(setting) or program)
    return Path(found).resolve() if found else None


def no_program(setting: str, program: str, build: str) -> Availability:
    """Why `named_program` finds none, and what to do. `build` says how to get it."""
    if chosen := os.environ.get(setting):
        remedy = f"name the program itself, or unset it and put `{program}` into PATH"
        return unavailable(f"{setting}={chosen} is no program that can be run", remedy=remedy)
    return unavailable(
        f"program `{program}` not found", remedy=f"{build}, and set {setting} to the program"
    )


def build_of(program: Path) -> str:
    """What tells builds of a program apart that tells no version: the beginning of its SHA-256."""
    return f"sha256 {_digest(program, program.stat().st_mtime_ns)[:_SHOWN_DIGITS]}"


@cache
def _digest(program: Path, modified_ns: int) -> str:  # noqa: ARG001
    """The digest of a program, computed once for each state of its file."""
    with program.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
