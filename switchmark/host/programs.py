"""Finds programs of the machine, and programs that an environment variable names."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Protocol

from switchmark.errors import Refusal
from switchmark.model.capabilities import Availability, refused, unavailable

VERSION = r"(\d+(?:\.\d+)+(?:-[\w.]+)?)"
UNKNOWN = "unknown version"


def which(program: str) -> Path | None:
    """Return the path of a program, searched in PATH and the system's folders; None without it."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    return Path(path) if path else None


def with_folder(program: str) -> str:
    """Return the path of a program, for a container, whose PATH can differ; the program itself if
    it is not found. The folder is the real one, which a container has. The name stays, because some
    programs act by the name with which they are called."""
    path = which(program)
    return program if path is None else str(path.parent.resolve() / path.name)


def find_program(setting: str, candidates: Iterable[str]) -> Path | None:
    """Return the program that the environment variable `setting` names, or the first candidate
    that exists. None if the variable names no executable program."""
    chosen = os.environ.get(setting)
    programs = map(which, [chosen] if chosen else candidates)
    return next((program for program in programs if program), None)


def setting_problem(setting: str) -> Availability | None:
    """Return the problem if the variable `setting` names no executable program, otherwise None."""
    chosen = os.environ.get(setting)
    if not chosen or which(chosen):
        return None
    problem = program_problem(chosen) or Refusal("is not a program", "name another")
    return refused(problem.about(f"{setting}={chosen} "))


def no_program(setting: str, program: str, obtain: str) -> Availability:
    """Return why `find_program` finds no program, with the remedy; `obtain` is how to get it."""
    return setting_problem(setting) or unavailable(
        f"program `{program}` not found", remedy=f"{obtain}, and set {setting} to the program"
    )


def not_installed(program: str, package: str) -> Availability | None:
    """Return the reason, with the package that has the program, if it is missing; or None."""
    if which(program):
        return None
    return unavailable(f"program `{program}` not found", remedy=f"apt install {package}")


def program_problem(path: str) -> Refusal | None:
    """Return why this file cannot be executed, with the remedy; None if it can be tried."""
    program = Path(path)
    # Path.exists would raise an exception for a name that is too long.
    if not os.path.exists(program):  # noqa: PTH110
        return Refusal("does not exist", "build or install it there, or name another")
    if not os.path.isfile(program):  # noqa: PTH113
        return Refusal("is not a file", "name the program itself")
    if not os.access(program, os.X_OK):
        return Refusal("is not executable", f"chmod +x {path}")
    return None


def digest(program: Path) -> str:
    """Return the SHA-256 of a program, computed once per state of its file. Raises OSError."""
    return _digest(program, program.stat().st_mtime_ns)


def has_bytes(program: Path, pattern: bytes) -> bool:
    """Return True if a program contains these bytes, searched once per state of its file.

    Raises OSError."""
    return _has_bytes(program, program.stat().st_mtime_ns, pattern)


@cache
def _has_bytes(program: Path, modified_ns: int, pattern: bytes) -> bool:  # noqa: ARG001
    return pattern in program.read_bytes()


@cache
def _digest(program: Path, modified_ns: int) -> str:  # noqa: ARG001
    with program.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class ProgramPlace(Protocol):
    """The host on which the programs of an end run."""

    def is_bound(self, pid: int, protocol: str, port: int) -> bool:
        """Return True if a socket in the network namespace of a process is bound to a local port;
        for TCP, if it listens."""
        ...

    def version_of(
        self, program: str, options: tuple[str, ...] = ("--version",), says: str = VERSION
    ) -> str:
        """Return the version of a program in PATH; see `version_of`."""
        ...

    def make_folder(self, parent: Path, name: str) -> Path:
        """Make a folder that is removed with the session; `parent`: that of the session here."""
        ...

    def write(self, path: Path, text: str) -> None:
        """Write a file into such a folder."""
        ...
