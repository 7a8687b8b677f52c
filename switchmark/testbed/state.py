"""Where the bench keeps what it must remember on a machine: ledgers, sockets, caches.

Environment variables move both places, so that tests and users without `/run` have their own; a
moved state directory is a separate bench that sees no other.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from switchmark.errors import UsageError

# A UNIX socket path holds 107 characters; sockets lie some 45 below the state directory.
LONGEST_STATE_DIR = 60


def state_dir() -> Path:
    """The directory of ledgers and run directories (`SWITCHMARK_STATE_DIR`)."""
    path = Path(os.environ.get("SWITCHMARK_STATE_DIR", "/run/switchmark"))
    if not path.is_absolute():
        raise UsageError(f"SWITCHMARK_STATE_DIR={path}: must be an absolute path")
    if re.search(r"[^A-Za-z0-9._+/-]", str(path)):
        raise UsageError(
            f"SWITCHMARK_STATE_DIR={path}: letters, digits and . _ + - / only, since LXC's mount"
            " entries and switches' command lines take nothing else"
        )
    if len(str(path)) > LONGEST_STATE_DIR:
        raise UsageError(
            f"SWITCHMARK_STATE_DIR={path}: {len(str(path))} characters, longer than"
            f" {LONGEST_STATE_DIR}; socket paths below it would not fit: choose a shorter one"
        )
    return path


def cache_dir() -> Path:
    """The directory of things that are kept between runs (`SWITCHMARK_CACHE_DIR`)."""
    path = Path(os.environ.get("SWITCHMARK_CACHE_DIR", "/var/cache/switchmark"))
    if not path.is_absolute():
        raise UsageError(f"SWITCHMARK_CACHE_DIR={path}: must be an absolute path")
    return path


def not_ours(found: os.stat_result) -> str | None:
    """Why a file or folder must not be trusted, since others could have written it; None when only
    this user can. A ledger tells root what to remove."""
    if found.st_uid != os.geteuid():
        return f"belongs to another user (uid {found.st_uid})"
    if found.st_mode & 0o022:
        return f"others may write it (mode {stat.S_IMODE(found.st_mode):o})"
    return None
