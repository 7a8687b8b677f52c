"""Programs of the benchmark that take no commands: iperf3, and two of C files beside this one, a
plain sender (plain.c) and loops that do nothing but the system call (floor.c).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from programs import Process


class Plain:
    """A program without commands: it sends from its start to its end."""

    def __init__(self, args: Sequence[str], core: int) -> None:
        self.process = Process(args, core)

    def start(self) -> None:
        """It runs already."""

    def finish(self) -> None:
        """It is ended by `kill`."""


def compile_all(folder: Path) -> dict[str, Path]:
    """`plain` and `floor` (without io_uring where liburing's header is missing), built into a
    folder; nothing without a compiler."""
    if shutil.which("cc") is None:
        return {}
    build: list[str | Path] = ["cc", "-O2", "-D_GNU_SOURCE", "-o"]
    made = {name: folder / name for name in ("plain", "floor")}
    source = {name: Path(__file__).with_name(f"{name}.c") for name in made}
    subprocess.run([*build, made["plain"], source["plain"]], check=True, timeout=60)
    floor = [*build, made["floor"], source["floor"]]
    whole = subprocess.run(
        [*floor, "-DHAVE_LIBURING", "-luring"], capture_output=True, check=False, timeout=60
    )
    if whole.returncode != 0:
        subprocess.run(floor, check=True, timeout=60)
    return made
