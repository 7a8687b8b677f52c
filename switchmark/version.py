"""The version of switchmark, and the revision of its sources if it is known.

In a checkout, tools/revision prints the revision. An installed package has it in the file
revision.txt, which the build writes (meson.build)."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

__version__ = "0.1.0"

_HERE = Path(__file__).parent
_TIMEOUT_S = 10.0
DIRTY = "-dirty"  # suffix of a revision if the files differ from it


@cache
def full_version() -> str:
    """Return the version with the commit that last changed this package: `0.1.0+04da8fbd7ebb`.

    `-dirty` follows if files differ from that commit. The version stands alone if the commit is
    unknown."""
    return __version__ + revision_of(_HERE)


def revision_of(package: Path) -> str:
    """Return the suffix of the version for the sources of this package; empty if it is unknown."""
    script = package.parent / "tools/revision"
    if script.is_file():
        return _run_script(script, package.name)
    try:
        return (package / "revision.txt").read_text("ascii").strip()
    except (OSError, UnicodeError):
        return ""


def _run_script(script: Path, path: str) -> str:
    try:
        done = subprocess.run(
            [script, path], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
