"""Steps of the real-time clock of a bench and its processes: a preloaded library adds the content
of a file, which the fault changes. CLOCK_MONOTONIC continues, as with a real step."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.faults.bench import Job
from tests.faults.undo import Undo

FILE = "clock"
JUMPS_S = (-86400, -3600, -2, 2, 3600, 86400)


def prepare(folder: Path) -> Mapping[str, str]:
    """Return the environment of a bench with such a clock; empty without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return {}
    library = folder / "clock.so"
    source = str(Path(__file__).with_suffix(".c"))
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), source], check=True)
    _set(folder / FILE, 0)
    return {"LD_PRELOAD": str(library), "FAULTS_CLOCK": str(folder / FILE)}


def jump(job: Job, rng: random.Random) -> Undo | None:
    """Step the clock, and back once the bench has ended."""
    file = job.places.campaign.with_name(FILE)
    if not file.exists():
        return None
    _set(file, rng.choice(JUMPS_S))
    return partial(_set, file, 0)


def _set(file: Path, seconds: int) -> None:
    """Write in place, as the library has the file mapped."""
    with file.open("r+b" if file.exists() else "wb") as opened:
        opened.write(struct.pack("=q", seconds))
