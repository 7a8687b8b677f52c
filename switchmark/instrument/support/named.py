"""Programs of instruments that no package has: an environment variable names them."""

from __future__ import annotations

from pathlib import Path

from switchmark.model.capabilities import Availability, unavailable
from switchmark.testbed.programs import digest, find_program, setting_problem

_SHOWN_DIGITS = 12


def named_program(setting: str, program: str) -> Path | None:
    """The program that the variable names, else the one in PATH; None where there is none. A
    variable that names nothing runnable finds nothing."""
    found = find_program(setting, [program])
    return found.resolve() if found else None


def no_program(setting: str, program: str, build: str) -> Availability:
    """Why `named_program` finds none, and what to do. `build` says how to get it."""
    return setting_problem(setting) or unavailable(
        f"program `{program}` not found", remedy=f"{build}, and set {setting} to the program"
    )


def build_of(program: Path) -> str:
    """What tells builds of a program apart that tells no version: the beginning of its SHA-256."""
    return f"sha256 {digest(program)[:_SHOWN_DIGITS]}"
