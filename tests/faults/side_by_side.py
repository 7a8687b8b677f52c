"""Several matrices at once (`tools/faults --jobs N`): each in a host of its own with every Nth
seed, and one table of all."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.faults.table import Row, table

TOOL = Path(__file__).parents[2] / "tools" / "faults"


def main() -> int:
    """As the matrix itself: 0 nothing found, 1 something, 3 nothing can be tried here."""
    parser = argparse.ArgumentParser(prog="tools/faults", description=__doc__)
    parser.add_argument("--jobs", type=int, required=True, help="how many at once")
    parser.add_argument("--seed", type=int, default=1, help="of the first case (1)")
    asked, others = parser.parse_known_args()
    if asked.jobs < 1:
        parser.error(f"--jobs: {asked.jobs} is below 1")
    ours, theirs = os.pipe()
    jobs = [
        subprocess.Popen(
            [TOOL, *others, "--seed", str(asked.seed + number), "--every", str(asked.jobs),
             "--tell-to", str(theirs)],
            pass_fds=[theirs],
        )
        for number in range(asked.jobs)
    ]  # fmt: skip
    os.close(theirs)
    try:
        with os.fdopen(ours) as told:
            rows = [Row(**json.loads(line)) for line in told]
        codes = [job.wait() for job in jobs]
    finally:
        for job in jobs:
            job.kill()  # (with all in its host)
    if rows:
        table(sorted(rows, key=lambda row: row.seed))
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main())
