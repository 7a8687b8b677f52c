"""The file by which applications that share a core take turns (the engine's `--idle baton`).

There is one file for a host's whole session, in a separate folder, which containers see under
another name. A futex in it works between containers as between processes of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from switchmark.host.host import Session
from switchmark.model.choices import Idle

FOLDER_INSIDE = "/run/batons"
_FILE = "baton"


def folder_of(session: Session) -> Path:
    """The baton's folder on the host, which is removed with the session."""
    folder = session.run_dir / "batons"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def with_baton(args: Sequence[str], folder: str | Path) -> list[str]:
    """An engine's command line with the file in this folder, where the engine takes turns."""
    return [*args, "--baton", f"{folder}/{_FILE}"] if Idle.BATON in args else list(args)


def without_baton(args: Sequence[str]) -> list[str]:
    """Return the command line with `yield` in place of the baton, for an engine that runs alone on
    its kernel, as in a virtual machine."""
    return [Idle.YIELD.value if word == Idle.BATON else word for word in args]
