"""Which of root's rights a command keeps, where it is a program of its own.

Used as a library, the bench gives up nothing: the process is somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from switchmark.results.default_root import DEFAULT_ROOT

# With these a command measures nothing and makes nothing but files.
MEASURES_NOTHING = ("--help", "-h", "--list", "--only-report")


class Keeps(StrEnum):
    """What a command that root starts keeps, for good, from before it is loaded."""

    FILES = "files"  # none, but `dac_override` where it may work with another user's files
    LISTENS = "listens"  # the same, and `net_bind_service`
    BENCH = "bench"  # all that a bench uses, or what it starts
    OWN = "own"  # the command sees to it itself


def give_up(keeps: Keeps, args: Sequence[str]) -> None:
    """Keep no more than that of the capabilities of this process. Before it has other threads."""
    from switchmark.testbed.kernel import capabilities

    if keeps is Keeps.BENCH and not set(args).isdisjoint(MEASURES_NOTHING):
        keeps = Keeps.FILES
    with suppress(OSError):  # (a container may refuse the calls; there is less to give up there)
        if keeps is Keeps.BENCH:
            capabilities.give_up_unused()
        elif keeps is not Keeps.OWN:
            kept = list(capabilities.FILES.values()) if _others(args) else []
            if keeps is Keeps.LISTENS:
                kept += capabilities.LISTENING.values()
            capabilities.keep_only(kept)


def _others(args: Sequence[str]) -> bool:
    """Whether a command with these arguments may work with what is another user's."""
    from switchmark.testbed.kernel.capabilities import is_closed

    if "SWITCHMARK_STORE" in os.environ or any(map(_names_store, args)):
        return True  # (the record files of a store are in a folder that its database names)
    return any(_is_others(place) or is_closed(place) for place in _places(args))


def _names_store(word: str) -> bool:
    return word.partition("=")[0] == "--store" or word.startswith(("postgresql:", "postgres:"))


def _places(args: Sequence[str]) -> Iterator[Path]:
    """What it may read or write: where it is, the runs that are there, and whatever an argument
    names that could be a path."""
    for get in (Path.cwd, Path.home):
        with suppress(OSError, RuntimeError):  # (the folder may be gone)
            yield get()
    named = [DEFAULT_ROOT]
    for before, word in zip(["", *args], args, strict=False):
        value = word.partition("=")[2] if word.startswith("--") else word
        if value and "\0" not in value:
            yield Path(value)
        if before == "--results" or word.startswith("--results="):
            named.append(Path(value))
    for folder in named:
        with suppress(OSError):
            yield from folder.iterdir()


def _is_others(place: Path) -> bool:
    """Whether another user owns it, or the folder in which it would be made."""
    for one in (place, *place.absolute().parents):
        with suppress(OSError):
            return one.stat().st_uid != os.geteuid()
    return False
