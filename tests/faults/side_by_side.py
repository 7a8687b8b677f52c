"""Several matrices at once (`tools/faults --jobs N`): each in a host of its own with every Nth
seed, and one table of all. Here, outside of these hosts, rows are kept (`--rows FILE`)."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from tests.faults.row import Row, rows_in
from tests.faults.table import tell_all
from tests.known_state import establish

TOOL = Path(__file__).parents[2] / "tools" / "faults"


def main() -> int:
    """As the matrix itself: 0 nothing found, 1 something, 3 nothing can be tried here."""
    establish()
    parser = argparse.ArgumentParser(prog="tools/faults", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="how many at once (1)")
    parser.add_argument("--seed", type=int, default=1, help="of the first case (1)")
    parser.add_argument("--rows", type=Path, help="a file to which each case adds a line")
    asked, others = parser.parse_known_args()
    if asked.jobs < 1:
        parser.error(f"--jobs: {asked.jobs} is below 1")
    ours, theirs = os.pipe()
    jobs = [
        subprocess.Popen(  # (no host outlives this)
            ["setpriv", "--pdeathsig", "KILL", TOOL, *others, "--seed", str(asked.seed + number),
             "--every", str(asked.jobs), "--tell-to", str(theirs)],
            pass_fds=[theirs],
        )
        for number in range(asked.jobs)
    ]  # fmt: skip
    os.close(theirs)
    try:
        with os.fdopen(ours) as told:
            rows = _kept(told, asked.rows)
        codes = [job.wait() for job in jobs]
    finally:
        for job in jobs:
            job.kill()  # (with all in its host)
    if rows:
        tell_all(sorted(rows, key=lambda row: row.seed))
    return max(abs(code) for code in codes)


def _kept(told: Iterable[str], file: Path | None) -> list[Row]:
    """The rows, each of which is in the file as soon as it is told."""
    rows: list[Row] = []
    with ExitStack() as opened:
        keep = opened.enter_context(file.open("a")) if file else None
        for line in told:
            rows += rows_in([line])
            if keep:
                keep.write(line)
                keep.flush()
    return rows


if __name__ == "__main__":
    sys.exit(main())
