"""Programs of the machine, and those that a setting of the environment names."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from switchmark.errors import Refusal
from switchmark.model.capabilities import Availability, refused, unavailable


def which(program: str) -> Path | None:
    """A program by name or path, looked up in PATH and in the system's own folders."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    return Path(found) if found else None


def find_program(setting: str, candidates: Iterable[str]) -> Path | None:
    """The program that the environment variable `setting` names, else the first candidate
    that exists. A setting that names nothing runnable finds nothing."""
    chosen = os.environ.get(setting)
    found = map(which, [chosen] if chosen else candidates)
    return next((program for program in found if program), None)


def setting_problem(setting: str) -> Availability | None:
    """Unavailable, where `setting` names no program that can be run; None where it is not set, or
    names one."""
    chosen = os.environ.get(setting)
    if not chosen or which(chosen):
        return None
    problem = program_problem(chosen) or Refusal("is not a program", "name another")
    return refused(problem.about(f"{setting}={chosen} "))


def no_program(setting: str, program: str, obtain: str) -> Availability:
    """Why `find_program` finds none, and what to do; `obtain` says how to get it."""
    return setting_problem(setting) or unavailable(
        f"program `{program}` not found", remedy=f"{obtain}, and set {setting} to the program"
    )


def not_installed(program: str, package: str) -> Availability | None:
    """Unavailable, where there is no such program, with the package that has it; else None."""
    if which(program):
        return None
    return unavailable(f"program `{program}` not found", remedy=f"apt install {package}")


def program_problem(path: str) -> Refusal | None:
    """Why this file cannot be run, with the remedy; None when it can be tried."""
    program = Path(path)
    if not os.path.exists(program):  # noqa: PTH110 (a name that is too long is none)
        return Refusal("does not exist", "build or install it there, or name another")
    if not os.path.isfile(program):  # noqa: PTH113
        return Refusal("is no file", "name the program itself")
    if not os.access(program, os.X_OK):
        return Refusal("is not executable", f"chmod +x {path}")
    return None


def digest(program: Path) -> str:
    """The SHA-256 of a program, computed once for each state of its file. Raises OSError."""
    return _digest(program, program.stat().st_mtime_ns)


def holds(program: Path, mark: bytes) -> bool:
    """Whether these bytes are in a program, looked up once for each state of its file. Raises
    OSError."""
    return _holds(program, program.stat().st_mtime_ns, mark)


@cache
def _holds(program: Path, modified_ns: int, mark: bytes) -> bool:  # noqa: ARG001
    return mark in program.read_bytes()


@cache
def _digest(program: Path, modified_ns: int) -> str:  # noqa: ARG001
    with program.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
