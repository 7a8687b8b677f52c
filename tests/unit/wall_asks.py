"""A program that tries what a wall forbids, and prints what each try ends with: 0, or an errno.

python wall_asks.py INSIDE OUTSIDE OTHER_PROCESS TCP_PORT ABSTRACT_NAME
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path


def outcome(attempt: Callable[[], object]) -> int:
    try:
        attempt()
    except OSError as error:
        return error.errno or -1
    return 0


def bind(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(path))


def tcp(port: int) -> None:
    socket.socket().connect(("127.0.0.1", port))


def makes_and_removes(folder: Path) -> None:
    new, other = folder / "new", folder / "sub" / "other"
    new.write_text("text")
    other.parent.mkdir()
    new.rename(other)
    os.truncate(other, 1)
    other.unlink()
    bind(folder / "sub" / "socket")
    (folder / "sub" / "socket").unlink()
    other.parent.rmdir()


def main(inside: Path, outside: Path, other: int, port: int, abstract: str) -> None:
    file = outside / "file"
    tries: dict[str, Callable[[], object]] = {
        "write": lambda: file.open("r+"),
        "cut": lambda: os.truncate(file, 0),
        "make": (outside / "new").touch,
        "make a folder": (outside / "sub").mkdir,
        "make a link": lambda: (outside / "link").symlink_to("file"),
        "make a fifo": lambda: os.mkfifo(outside / "fifo"),
        "make a socket": lambda: bind(outside / "socket"),
        "remove": (outside / "victim").unlink,
        "remove a folder": (outside / "empty").rmdir,
        "move out": lambda: (inside / "kept").rename(outside / "moved"),
        "run": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "look into another process": lambda: Path(f"/proc/{other}/environ").read_bytes(),
        "signal": lambda: os.kill(other, 0),
        "listen at TCP": lambda: socket.socket().bind(("127.0.0.1", 0)),
        "connect by TCP": lambda: tcp(port),
        "abstract socket": lambda: socket.socket(socket.AF_UNIX).connect(f"\0{abstract}"),
        "inside": lambda: makes_and_removes(inside),
        "read": file.read_bytes,
        "write to /dev/null": lambda: Path("/dev/null").write_text("text"),
        "name a thread": lambda: Path("/proc/self/comm").write_text("name"),
        "signal itself": lambda: os.kill(os.getpid(), 0),
        "named socket": lambda: socket.socket(socket.AF_UNIX).connect(str(outside / "listens")),
        "change a mode": lambda: file.chmod(0o600),
    }
    print(json.dumps({name: outcome(attempt) for name, attempt in tries.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
