"""Which switchmark this is: its version, and the revision of its sources where that is known.

In a checkout it is asked for (tools/revision); what was built from one carries it in a file beside
this one, which the build writes (meson.build)."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from switchmark import __version__

_HERE = Path(__file__).parent
_PATIENCE_S = 10.0
DIRTY = "-dirty"  # of a revision from which files differ


@cache
def full_version() -> str:
    """`0.1.0+04da8fbd7ebb`: the commit that last changed this package. `-dirty` stands behind it
    where files differ from it; `0.1.0` alone where it is not known."""
    return __version__ + revision_of(_HERE)


def revision_of(package: Path) -> str:
    """The revision of a folder that holds the package, as it stands behind the version; empty where
    it is not known."""
    script = package.parent / "tools/revision"
    if script.is_file():
        return _asked(script, package.name)
    try:
        return (package / "revision.txt").read_text("ascii").strip()
    except (OSError, UnicodeError):
        return ""


def _asked(script: Path, path: str) -> str:
    try:
        done = subprocess.run(
            [script, path], capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
