"""Where the benchmark runs: which engine, on which cores, before whom."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def two_cores(named: str | None) -> tuple[int, int]:
    """Those of `--cores A,B`, else the first two that may be used. Exits when there are none."""
    cores = [int(core) for core in (named or "").split(",") if core]
    cores = cores or sorted(os.sched_getaffinity(0))[:2]
    if len(cores) != 2:
        sys.exit("needs two cores: name them with --cores A,B")
    return cores[0], cores[1]


def find_engine(given: Path | None) -> Path:
    """The engine's binary. Exits with a remedy when there is none."""
    root = Path(__file__).resolve().parents[2]
    found = [given] if given else sorted(root.glob("build*/**/switchmark-traffic"))
    on_path = shutil.which("switchmark-traffic")
    found += [Path(on_path)] if on_path and not given else []
    for path in found:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    sys.exit("no switchmark-traffic: build it (meson setup build; ninja -C build) or use --engine")


@contextmanager
def preferred(wanted: bool) -> Iterator[None]:
    """On a machine that is busy with other things, have the cores first for a while."""
    autogroup = Path("/proc/self/autogroup")
    if not wanted:
        yield
        return
    before = autogroup.read_text().split()[-1]
    autogroup.write_text("-20")
    try:
        yield
    finally:
        autogroup.write_text(before)
