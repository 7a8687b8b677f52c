"""Generators without a package, whose program an environment variable names."""

from __future__ import annotations

import os
from pathlib import Path

from switchmark.host.programs import digest, find_program
from switchmark.model.capabilities import Availability, unavailable

_SHOWN_DIGITS = 12


def named_program(setting: str, program: str) -> Path | None:
    """Return the program that the variable names, otherwise the program in PATH; None if there is
    no such program, or if the variable does not name an executable file."""
    found = find_program(setting, [program])
    return found.resolve() if found else None


def no_folder(setting: str, program: str, obtain: str, inside: str) -> Availability | None:
    """Return the problem if the variable does not name a folder with this program; None otherwise.
    `obtain` and `inside` are the remedies without a folder, and for a wrong folder."""
    named = os.environ.get(setting)
    if not named:
        remedy = f"{obtain}, and set {setting} to the folder with {program} in it"
        return unavailable(f"{setting} names no folder", remedy=remedy)
    if not os.access(Path(named, program), os.X_OK) or not Path(named, program).is_file():
        return unavailable(f"{setting}={named}: no program {program} in it", remedy=inside)
    return None


def named_folder(setting: str) -> Path:
    """Return the folder that the variable names."""
    return Path(os.environ.get(setting, ".")).resolve()


def build_of(program: Path) -> str:
    """Return the beginning of a program's SHA-256, which distinguishes builds without a version."""
    return f"sha256 {digest(program)[:_SHOWN_DIGITS]}"
