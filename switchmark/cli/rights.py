"""The privileges of root that a command keeps.

Used as a library, the bench keeps all of them, because the process belongs to another program.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from switchmark.results import DEFAULT_ROOT

# With these a command measures nothing and makes nothing but files.
MEASURES_NOTHING = ("--help", "-h", "--list", "--only-report")
_SIGNS = re.compile(r"[=,\s(){}\[\]]+")  # around the values in a notation
_FROM_A_SLASH = re.compile(r"[^=,\s(){}\[\]]*/.*")  # the first word with one, up to the line's end
_QUOTES = " '\""
_FILE_BYTES_MAX = 1 << 20  # a longer file is neither a campaign nor a testbed


class Keeps(StrEnum):
    """The capabilities that a command keeps if root starts it. The others are dropped before its
    module is loaded."""

    FILES = "files"  # none, or `dac_override` if it may use files of another user
    REPORTS_PLACE = "reports place"  # the same, after a test of the place
    LISTENS = "listens"  # the same, and `net_bind_service`
    BENCH = "bench"  # all that a bench and its programs use
    OWN = "own"  # the command drops capabilities itself


def give_up(keeps: Keeps, args: Sequence[str]) -> None:
    """Drop the other capabilities of this process, which must not have other threads yet."""
    from switchmark.host.kernel import capabilities

    if keeps is Keeps.BENCH and not set(args).isdisjoint(MEASURES_NOTHING):
        keeps = Keeps.REPORTS_PLACE if "--list" in args else Keeps.FILES
    if keeps is Keeps.REPORTS_PLACE:
        from switchmark.host import place

        place.try_all()  # the command reports what a bench with all capabilities can do
    with suppress(OSError):  # a container may refuse the calls; it has fewer capabilities
        if keeps is Keeps.BENCH:
            capabilities.drop_unused()
        elif keeps is not Keeps.OWN:
            capability_numbers = list(capabilities.FILES.values()) if _others(args) else []
            if keeps is Keeps.LISTENS:
                capability_numbers += capabilities.LISTENING.values()
            capabilities.keep_only(capability_numbers)


def _others(args: Sequence[str]) -> bool:
    """Return True if a command with these arguments may need files of another user."""
    from switchmark.host.kernel.capabilities import is_closed

    if "SWITCHMARK_STORE" in os.environ or any(map(_names_store, args)):
        return True  # the database of a store names the folder of its records
    try:
        named = _named(args)
        written = [path for one in named for path in _written_in(one)]
        places = [Path.cwd(), Path.home(), *named, *dict.fromkeys(written)]
        return (
            any(map(is_closed, used()))
            or any(map(is_closed, places))
            or any(map(_is_others, places))
            or any(map(_is_others, (one for folder in named for one in _inside(folder))))
        )
    except (OSError, RuntimeError):  # the folder may be gone, or the user unknown
        return True


def paths_of(args: Sequence[str]) -> list[Path]:
    """Return all words in the arguments, their files and the environment that can be paths."""
    paths = [*map(Path, used()), *(named := _named(args))]
    for path in named:
        with suppress(OSError, RuntimeError):  # this user may not read it
            paths += _written_in(path)
    return paths


def _named(args: Sequence[str]) -> list[Path]:
    values = [part for one in map(_value, args) for part in (one, *_SIGNS.split(one))]
    return [DEFAULT_ROOT, *map(Path, filter(None, dict.fromkeys(values)))]


def _names_store(word: str) -> bool:
    return word.partition("=")[0] == "--store" or word.startswith(("postgresql:", "postgres:"))


def used() -> Iterator[str]:
    """Yield the folders of its modules, the folders of programs that it starts, and the values of
    settings."""
    yield from (sys.prefix, *filter(None, sys.path))
    yield from filter(None, os.environ.get("PATH", "").split(os.pathsep))
    yield from (value for name, value in os.environ.items() if name.startswith("SWITCHMARK_"))


def _inside(folder: Path) -> Iterator[Path]:
    """Yield the entries of a folder, such as runs; nothing if it is not a folder."""
    with suppress(OSError):
        yield from folder.iterdir()


def _written_in(place: Path) -> Iterator[Path]:
    """Yield all words in a campaign or testbed file that can be paths, also relative to its folder.
    The readers of these files are not loaded yet, so each word with a slash counts, alone and with
    the rest of its line, because a name may have spaces."""
    if not place.is_file() or place.stat().st_size > _FILE_BYTES_MAX:
        return
    text = os.fsdecode(place.read_bytes())
    for line in text.splitlines() if "\0" not in text else ():
        for word in (*_SIGNS.split(line), *_FROM_A_SLASH.findall(line)):
            if "/" in word:
                path = Path(word.strip(_QUOTES)).expanduser()
                yield from (path, place.parent / path)


def _value(word: str) -> str:
    """Return the part of an argument that can be a path, for example of `-oFILE`; otherwise an
    empty text."""
    value = word.partition("=")[2] if word.startswith("--") else word
    if value.startswith("-"):
        value = value[2:]
    return "" if "\0" in value else value


def _is_others(place: Path) -> bool:
    """Return True if another user owns the file, or the folder in which it would be made."""
    for path in (place, *place.absolute().parents):
        with suppress(OSError):
            return path.stat().st_uid != os.geteuid()
    return False
