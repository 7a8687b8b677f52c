"""Programs of instruments that no package has: an environment variable names them."""

from __future__ import annotations

import os
from pathlib import Path

from switchmark.host.programs import digest, find_program
from switchmark.model.capabilities import Availability, unavailable

_SHOWN_DIGITS = 12


def named_program(setting: str, program: str) -> Path | None:
    """The program that the variable names, else the one in PATH; None where there is none. A
    variable that names nothing runnable finds nothing."""
    found = find_program(setting, [program])
    return found.resolve() if found else None


def no_folder(setting: str, program: str, obtain: str, inside: str) -> Availability | None:
    """Unavailable, where the variable names no folder that has this program: `obtain` and `inside`
    are what to do without a folder, and with another one. None where it does."""
    named = os.environ.get(setting)
    if not named:
        remedy = f"{obtain}, and set {setting} to the folder with {program} in it"
        return unavailable("no folder of it is named", remedy=remedy)
    if not os.access(Path(named, program), os.X_OK) or not Path(named, program).is_file():
        return unavailable(f"{setting}={named}: no program {program} in it", remedy=inside)
    return None


def named_folder(setting: str) -> Path:
    """The folder that the variable names."""
    return Path(os.environ.get(setting, ".")).resolve()


def build_of(program: Path) -> str:
    """What tells builds of a program apart that tells no version: the beginning of its SHA-256."""
    return f"sha256 {digest(program)[:_SHOWN_DIGITS]}"
