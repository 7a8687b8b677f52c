"""The setting of the benchmark: engine, cores, priority."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from switchmark.engine import binary
from switchmark.errors import UnavailableError


def common_options(description: str | None, cores: str) -> argparse.ArgumentParser:
    """Return a parser with the common options of all comparisons; `cores` describes the cores."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--engine", type=Path, help="the binary (default: the one that the bench uses)")
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
    """Return the cores of `--cores A,B`, otherwise the first two usable cores, or exit."""
    cores = [int(core) for core in (named or "").split(",") if core]
    cores = cores or sorted(os.sched_getaffinity(0))[:2]
    if len(cores) != 2:
        sys.exit("needs two cores: name them with --cores A,B")
    return cores[0], cores[1]


def find_engine(given: Path | None) -> Path:
    """Return the named engine, otherwise the engine of the bench: a folder of another
    build may hold sanitizers or coverage. Exit with a remedy if there is none, or if its figures
    would not be valid."""
    if given is not None and not (given.is_file() and os.access(given, os.X_OK)):
        sys.exit(f"--engine {given}: not an executable file; name the engine's program")
    try:
        engine = binary.find_engine() if given is None else given.resolve()
    except UnavailableError as error:
        sys.exit(f"{error}, or use --engine")
    if (problem := binary.build_problem(engine)) is not None:
        sys.exit(str(problem))
    return engine


@contextmanager
def preferred(is_requested: bool) -> Iterator[None]:
    """Give this process priority on a busy machine for the block."""
    autogroup = Path("/proc/self/autogroup")
    if not is_requested:
        yield
        return
    before = autogroup.read_text().split()[-1]
    autogroup.write_text("-20")
    try:
        yield
    finally:
        autogroup.write_text(before)
