"""Lists each place of a bench's code that accesses the machine, or refuses one place once.

`tests/faults/accesses.py` starts such benches. Python loads this file before all others."""

import os
import sys
from pathlib import Path
from typing import Any

PACKAGE = os.environ.get("SM_PACKAGE", "") + "/"  # the code whose places are listed
TELL = os.environ.get("SM_TELL", "")  # the file for the list of places
REFUSE = os.environ.get("SM_REFUSE", "")  # the place to refuse and the error number
EVENTS = {
    "open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link",
    "os.symlink", "os.chmod", "os.chown", "os.truncate", "shutil.rmtree", "subprocess.Popen",
    "socket.__new__", "socket.bind", "socket.connect", "fcntl.flock", "fcntl.ioctl",
}  # fmt: skip


class Hook:
    """An audit hook: Python calls it for every access from Python code."""

    def __init__(self) -> None:
        self.pid = os.getpid()  # without forked children
        self.told: set[str] = set()
        self.is_busy = False
        self.refused, _, self.error = REFUSE.rpartition(" ")

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if event in EVENTS and not self.is_busy and os.getpid() == self.pid:
            self.is_busy = True
            try:
                self.observe(event, given)
            finally:
                self.is_busy = False

    def observe(self, event: str, given: tuple[Any, ...]) -> None:
        frame = sys._getframe(2)
        while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
            if "importlib" in frame.f_code.co_filename:
                return  # Python imports modules
            frame = frame.f_back
        if frame is None:
            return
        writes = event == "open" and (given[2] & 3 if isinstance(given[2], int) else False)
        where = f"{frame.f_code.co_filename[len(PACKAGE) :]}:{frame.f_lineno}"
        place = f"{where} {event}{' to write' if writes else ''}"
        if place in self.told:
            return
        self.told.add(place)
        if not self.refused or place == self.refused:
            with Path(TELL).open("a") as file:
                file.write(f"{place}\n")
        if place == self.refused:
            number = int(self.error)
            raise OSError(number, os.strerror(number))


if TELL:
    sys.addaudithook(Hook())
