"""The words before a command line that leave its program no more rights than it is to have."""

from __future__ import annotations

import os
import shutil
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from switchmark.host.kernel.capabilities import capability_prefix
from switchmark.model.rights import Rights

# What any program may write: the names of its own threads are in the last one.
_HARMLESS = ("/dev/null", "/dev/zero", "/dev/full", "/proc/self")
_64_BITS, _TABLE, _ENTRY, _INTERPRETER = b"\x7fELF\x02", "=32xQ14xHH", "=IIQQQQ", 3


def narrowed(
    command: Sequence[str], rights: Rights, env: Mapping[str, str] | None = None
) -> list[str]:
    """The command line that starts it with these rights; `env` is what its environment has beside
    ours. Raises UnavailableError without `setpriv`."""
    words = [*command, *(env or {}).values()]
    started = [*capability_prefix(rights.capabilities, words), *command]
    if rights.writes is None:
        return started
    # Outside of what takes capabilities away: our own files may lie where it takes some to read.
    options = [word for path in (*_HARMLESS, *rights.writes) for word in ("--write", path)]
    if programs := _programs(command):
        options += [
            word for path in (*programs, *_programs(started[:1])) for word in ("--run", path)
        ]
    return [sys.executable, "-I", "-S", "-c", _launcher(), *options, "--", *started]


@cache
def _launcher() -> str:
    return resources.files(__package__).joinpath("landlock_launcher.py").read_text("utf-8")


def _programs(command: Sequence[str]) -> list[str]:
    """The programs that a command line names, and what the kernel loads them by; none where one is
    a script, which may run anything."""
    found = []
    for word in command:
        if (program := shutil.which(word)) is not None:
            if (loader := _loader(program)) is None:
                return []
            found += [program, loader] if loader else [program]
    return found


def _loader(program: str) -> str | None:
    """The interpreter that a program for this machine names (elf(5)); empty where it is linked
    statically, None where it is no such program."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123
            head = file.read(64)
            if not head.startswith(_64_BITS):
                return None
            table, size, count = struct.unpack_from(_TABLE, head)
            for number in range(count):
                file.seek(table + number * size)
                kind, _, place, _, _, length = struct.unpack(_ENTRY, file.read(40))
                if kind == _INTERPRETER:
                    file.seek(place)
                    return os.fsdecode(file.read(length).rstrip(b"\0"))
    except (OSError, struct.error):
        return None
    return ""
