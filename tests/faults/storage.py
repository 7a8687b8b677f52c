"""Faults of the file systems in which a bench keeps its results and its state."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.faults.bench import Job
from tests.faults.undo import Undo, for_good, run

BUSY_S = 1.0  # a file that is being written keeps a file system from being made read-only


def fill(folder: Callable[[Job], Path], job: Job, _rng: random.Random) -> Undo:
    """Up to its last byte."""
    path = folder(job) / "filled"
    with suppress(OSError), path.open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
    return partial(path.unlink, missing_ok=True)


def cover_read_only(job: Job, _rng: random.Random) -> Undo | None:
    """A mount that cannot be written lies over the results: what is open goes on."""
    folder = str(job.places.results)
    if not run("mount", "--bind", folder, folder):
        return None
    run("mount", "-o", "remount,bind,ro", folder)
    return partial(run, "umount", "-l", folder)


def remount_read_only(job: Job, _rng: random.Random) -> Undo | None:
    """The file system itself, as the kernel does after an error of the disk."""
    folder = str(job.places.results)
    deadline = time.monotonic() + BUSY_S
    while not run("mount", "-o", "remount,ro", folder):
        if time.monotonic() > deadline:
            return None
        time.sleep(0.005)
    return partial(run, "mount", "-o", "remount,rw", folder)


def move_away(job: Job, _rng: random.Random) -> Undo | None:
    """The folder of the run has another name."""
    for path in job.places.results.glob("*/trials"):
        away = job.places.results / "elsewhere" / path.parent.name
        away.parent.mkdir(exist_ok=True)
        path.parent.rename(away)
        return partial(_move_back, away, path.parent)
    return None


def _move_back(away: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)  # (what the bench made anew there meanwhile)
    away.rename(place)
    away.parent.rmdir()


def remove(job: Job, _rng: random.Random) -> Undo | None:
    """All that is there."""
    found = list(job.places.results.glob("*"))
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return for_good if found else None
