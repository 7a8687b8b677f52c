"""Faults of the file systems in which a bench keeps its results and its state."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.faults.bench import Job
from tests.faults.undo import Undo, for_good, run

BLOCK_DEVICES = Path("/sys/dev/block")
FILE_SYSTEMS = Path("/sys/fs/ext4")


def fill(folder: Callable[[Job], Path], job: Job, _rng: random.Random) -> Undo:
    """Fill a folder up to its last byte."""
    path = folder(job) / "filled"
    with suppress(OSError), path.open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
    return partial(path.unlink, missing_ok=True)


def cover_read_only(job: Job, _rng: random.Random) -> Undo | None:
    """Mount a read-only file system over the results; open files remain writable."""
    folder = str(job.places.results)
    if not run("mount", "--bind", folder, folder):
        return None
    run("mount", "-o", "remount,bind,ro", folder)
    return partial(run, "umount", "-l", folder)


def mount_disk(folder: Path, size_mb: int) -> bool:
    """Give this folder a separate disk, a file beside it; return True if that is possible."""
    image = _image(folder)
    with image.open("wb") as file:
        file.truncate(size_mb << 20)
    has_file_system = run(
        "mkfs.ext4", "-q", "-I", "256", "-O", "^has_journal", "-e", "remount-ro", str(image)
    )
    if not has_file_system or not run("mount", "-o", "loop", str(image), str(folder)):
        return False
    (folder / "lost+found").rmdir()
    return True


def fail_disk(job: Job, _rng: random.Random) -> Undo | None:
    """Fail the disk: its file system becomes read-only also for open files, and unwritten data are
    lost. A remount is refused while a file is open for writing."""
    folder = job.places.results
    device = (BLOCK_DEVICES / _device(folder)).resolve()
    try:
        backing = Path((device / "loop" / "backing_file").read_text().strip())
        if not backing.samefile(_image(folder)):
            return None  # never a real disk of this machine
        (FILE_SYSTEMS / device.name / "trigger_fs_error").write_text("1")
    except OSError:
        return None
    return partial(_mount_anew, folder)


def _mount_anew(folder: Path) -> None:
    run("umount", "-l", str(folder))
    run("mount", "-o", "loop", str(_image(folder)), str(folder))


def _image(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.disk")


def _device(folder: Path) -> str:
    number = folder.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def move_away(job: Job, _rng: random.Random) -> Undo | None:
    """Rename the folder of the run."""
    for path in job.places.results.glob("*/trials"):
        away = job.places.results / "elsewhere" / path.parent.name
        away.parent.mkdir(exist_ok=True)
        path.parent.rename(away)
        return partial(_move_back, away, path.parent)
    return None


def _move_back(away: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)  # files that the bench made there meanwhile
    away.rename(place)
    away.parent.rmdir()


def remove(job: Job, _rng: random.Random) -> Undo | None:
    """Remove everything in the folder."""
    found = list(job.places.results.glob("*"))
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return for_good if found else None
