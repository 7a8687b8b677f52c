"""Runs a program of bench/ or tools/ by a Python that has the bench's packages.

Such a program imports this module first. Started with another Python, as `python3 bench/...` is, it
starts again with that of .venv; if that has not been made, it ends at once with the remedy, and
not after minutes of measuring. Importing this from anything else changes nothing but the path.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("duckdb", "numpy", "pydantic", "scipy", "typer")  # and with them all that they need


def missing() -> list[str]:
    """Return the packages of the bench that this Python lacks."""
    return [name for name in NEEDED if find_spec(name) is None]


def run_by_own_python(program: Path) -> None:
    """Start this program again with the Python of .venv if this one lacks packages. Exit if there
    is no .venv, or if it lacks them, too."""
    if not (lacking := missing()):
        return
    own = ROOT / ".venv" / "bin" / "python"
    if os.access(own, os.X_OK) and Path(sys.prefix).resolve() != own.parents[1].resolve():
        os.execv(own, [str(own), *sys.orig_argv[1:]])
    sys.exit(
        f"{program.relative_to(ROOT)}: {sys.executable} lacks {', '.join(lacking)}; "
        "run ./quickstart --setup-only, which makes .venv with them"
    )


def _program() -> Path | None:
    started = getattr(sys.modules.get("__main__"), "__file__", None)
    path = Path(started).resolve() if started else None
    inside = path is not None and any(path.is_relative_to(ROOT / one) for one in ("bench", "tools"))
    return path if inside else None


if (_started := _program()) is not None:
    run_by_own_python(_started)
