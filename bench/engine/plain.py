"""Programs of the benchmark without commands: iperf3, and those of the C files in this folder: a
plain sender (plain.c), loops that only make the system call (floor.c), the distance of two cores
(distance.c), and the stalls of a core (stalls.c)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from programs import Process

FLAGS = {"distance": ["-pthread"], "floor": ["-DHAVE_LIBURING"], "plain": [], "stalls": []}
LIBRARIES = {"floor": ["-luring"]}


class Plain:
    """A program without commands: it sends from its start to its end."""

    def __init__(self, args: Sequence[str], core: int) -> None:
        self.process = Process(args, core)

    def start(self) -> None:
        """Do nothing, as it runs already."""

    def finish(self) -> None:
        """Do nothing, as `kill` ends it."""


def compile_all(folder: Path) -> dict[str, Path]:
    """Build the programs in a folder and return them (`floor` without io_uring if liburing's header
    is missing); nothing without a compiler."""
    if shutil.which("cc") is None:
        return {}
    compiled: dict[str, Path] = {}
    for name, flags in FLAGS.items():
        target, source = folder / name, Path(__file__).with_name(f"{name}.c")
        build = ["cc", "-O2", "-D_GNU_SOURCE", "-o", str(target), str(source)]
        for extra in ([*flags, *LIBRARIES.get(name, [])], []):
            built = subprocess.run([*build, *extra], capture_output=True, check=False, timeout=60)
            if built.returncode == 0:
                compiled[name] = target
                break
    return compiled
