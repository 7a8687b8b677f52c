"""Starts a program behind a wall of Landlock (landlock(7)), in its own place:

    python3 -I -S -c TEXT [--write PATH | --run PATH] ... -- PROGRAM ARGUMENT ...

The program can write, create and remove files only at and below the paths of --write. It can run
only programs at the paths of --run, or any program without --run. It cannot use TCP. Signals,
ptrace and abstract sockets reach only processes in the same sandbox, which its children cannot
leave. The program also starts if the kernel has no Landlock or a container forbids it; an older
kernel restricts less. This file imports nothing of switchmark.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

# linux/landlock.h, linux/prctl.h; the numbers are those of every architecture
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION, PATH_BENEATH, NO_NEW_PRIVS = 1, 1, 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK, TRUNCATE, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
OF_VERSION_1 = (1 << 13) - 1
ADDED = {2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEV}  # by version; the first is moving between folders
PIPE, FILE_SIZE = 13, 25  # signals that Python ignores, and that a program it starts would

libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: bytes | int | None) -> int:
    """Make a system call for which the C library has no function."""
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return int(libc.syscall(ctypes.c_long(number), *values))


def allow(rules: int, path: str, access: int) -> None:
    """Allow this access at a path and below it; a missing path is ignored."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):  # noqa: PTH112
        access &= EXECUTE | WRITE_FILE | TRUNCATE | IOCTL_DEV
    call(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", access, place), 0)
    os.close(place)


def build(writes: list[str], runs: list[str]) -> None:
    """Put this process behind the wall."""
    version = call(CREATE_RULESET, None, 0, ASK_VERSION)
    if version < 1:
        return
    files = OF_VERSION_1 | sum(bit for since, bit in ADDED.items() if version >= since)
    files &= ~(READ_FILE | READ_DIR | (0 if runs else EXECUTE))
    tcp, scopes = 3 if version >= 4 else 0, 3 if version >= 6 else 0
    rules = call(CREATE_RULESET, struct.pack("=QQQ", files, tcp, scopes), 24, 0)
    if rules < 0:
        return
    for path in writes:
        allow(rules, path, files & ~(EXECUTE | MAKE_CHAR | MAKE_BLOCK))
    for path in runs:
        allow(rules, path, EXECUTE)
    call(RESTRICT_SELF, rules, 0)
    os.close(rules)


def main(arguments: list[str]) -> None:
    """Restrict this process, and execute the program."""
    paths: dict[str, list[str]] = {"--write": [], "--run": []}
    while arguments[0] != "--":
        paths[arguments[0]].append(arguments[1])
        arguments = arguments[2:]
    if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        build(paths["--write"], paths["--run"])
    for number in (PIPE, FILE_SIZE):
        libc.signal(number, None)
    os.execv(arguments[1], arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
