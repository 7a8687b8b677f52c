"""Where the benchmark runs: which engine, on which cores, before whom."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def common_options(description: str | None, cores: str) -> argparse.ArgumentParser:
    """A parser with what every comparison of programs asks for; `cores` says which they are."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--engine", type=Path, help="the binary (default: found in build*/ or on PATH)")
    add("--runs", type=int, default=7, help="runs of each program and case (default 7)")
    add("--seconds", type=float, default=1.0, help="measured time of a run (default 1)")
    add("--frame-size", type=int, default=64, help="bytes with FCS (default 64)")
    add("--burst", type=int, default=32, help="frames a burst, all programs (default 32)")
    add("--cores", help=f"{cores}, e.g. 0,1")
    add("--disturbed", type=float, default=0.02, help="share of a run that others may take")
    add(
        "--priority",
        action="store_true",
        help="let this session have the cores before others (autogroup nice -20, undone after)",
    )
    return parser


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
