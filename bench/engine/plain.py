"""Programs of the benchmark that take no commands: iperf3, and those of the C files beside this
one: a plain sender (plain.c), loops that do nothing but the system call (floor.c), the distance of
two cores (distance.c), and the stalls of a core (stalls.c).
"""

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
        """It runs already."""

    def finish(self) -> None:
        """It is ended by `kill`."""


def compile_all(folder: Path) -> dict[str, Path]:
    """Those that can be built, in a folder (`floor` without io_uring where liburing's header is
    missing); nothing without a compiler."""
    if shutil.which("cc") is None:
        return {}
    made: dict[str, Path] = {}
    for name, flags in FLAGS.items():
        target, source = folder / name, Path(__file__).with_name(f"{name}.c")
        build = ["cc", "-O2", "-D_GNU_SOURCE", "-o", str(target), str(source)]
        for extra in ([*flags, *LIBRARIES.get(name, [])], []):
            built = subprocess.run([*build, *extra], capture_output=True, check=False, timeout=60)
            if built.returncode == 0:
                made[name] = target
                break
    return made
