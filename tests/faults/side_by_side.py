"""Several matrices at the same time (`tools/faults --jobs N`), each in a private host with every
Nth seed, and one table of all. Rows are stored outside of these hosts (`--rows FILE`)."""

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
    """Return 0 without findings, 1 with findings, 3 if no case can run here."""
    establish()
    parser = argparse.ArgumentParser(prog="tools/faults", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="how many at once (1)")
    parser.add_argument("--seed", type=int, default=1, help="of the first case (1)")
    parser.add_argument("--rows", type=Path, help="a file to which each case adds a line")
    options, others = parser.parse_known_args()
    if options.jobs < 1:
        parser.error(f"--jobs: {options.jobs} is below 1")
    reader, writer = os.pipe()
    jobs = [
        subprocess.Popen(  # ends with this process
            ["setpriv", "--pdeathsig", "KILL", TOOL, *others, "--seed", str(options.seed + number),
             "--every", str(options.jobs), "--tell-to", str(writer)],
            pass_fds=[writer],
        )
        for number in range(options.jobs)
    ]  # fmt: skip
    os.close(writer)
    try:
        with os.fdopen(reader) as lines:
            rows = _kept(lines, options.rows)
        codes = [job.wait() for job in jobs]
    finally:
        for job in jobs:
            job.kill()  # ends all processes in its host
    if rows:
        tell_all(sorted(rows, key=lambda row: row.seed))
    return max(abs(code) for code in codes)


def _kept(lines: Iterable[str], file: Path | None) -> list[Row]:
    """Return the rows; each is written to the file as soon as it arrives."""
    rows: list[Row] = []
    with ExitStack() as opened:
        keep = opened.enter_context(file.open("a")) if file else None
        for line in lines:
            rows += rows_in([line])
            if keep:
                keep.write(line)
                keep.flush()
    return rows


if __name__ == "__main__":
    sys.exit(main())
