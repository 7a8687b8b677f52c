"""Run a program of bench/ or tools/ with a Python that has the packages of the bench.

Such a program imports this module first. If its Python lacks packages, for example after
`python3 bench/...`, it starts again with the Python of .venv. If there is no .venv, it ends at once
with the remedy, not after minutes of measuring. An import from another program has no effect.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = (
    "duckdb",
    "numpy",
    "pydantic",
    "scipy",
    "typer",
)  # their dependencies are installed with them


def missing() -> list[str]:
    """Return the packages of the bench that this Python lacks."""
    return [name for name in NEEDED if find_spec(name) is None]


def run_by_own_python(program: Path) -> None:
    """Start this program again with the Python of .venv if this Python lacks packages. Exit if
    there is no .venv, or if it also lacks them."""
    if not (lacking := missing()):
        return
    python = ROOT / ".venv" / "bin" / "python"
    if os.access(python, os.X_OK) and Path(sys.prefix).resolve() != python.parents[1].resolve():
        os.execv(python, [str(python), *sys.orig_argv[1:]])
    sys.exit(
        f"{program.relative_to(ROOT)}: {sys.executable} lacks {', '.join(lacking)}; "
        "run ./quickstart --setup-only, which installs them into .venv"
    )


def _program() -> Path | None:
    started = getattr(sys.modules.get("__main__"), "__file__", None)
    path = Path(started).resolve() if started else None
    inside = path is not None and any(path.is_relative_to(ROOT / one) for one in ("bench", "tools"))
    return path if inside else None


if (_started := _program()) is not None:
    run_by_own_python(_started)
