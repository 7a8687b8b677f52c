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

# Paths that any program can write; a program writes the names of its threads below the last.
_HARMLESS = ("/dev/null", "/dev/zero", "/dev/full", "/proc/self")
_64_BITS, _TABLE, _ENTRY, _INTERPRETER = b"\x7fELF\x02", "=32xQ14xHH", "=IIQQQQ", 3


def sandbox_command(
    command: Sequence[str], rights: Rights, env: Mapping[str, str] | None = None
) -> list[str]:
    """Return the command line that starts the command with these rights; `env` has the variables
    that are added to the bench's environment. Raises UnavailableError without `setpriv`."""
    arguments = [*command, *(env or {}).values()]
    started = [*capability_prefix(rights.capabilities, arguments), *command]
    if rights.writes is None:
        return started
    # Before setpriv drops capabilities: reading the launcher's files may need some of them.
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
