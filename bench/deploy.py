"""Measure how long many pairs take to make and to remove: `python bench/deploy.py --pairs 64`.

It needs root and an idle machine. Each environment is deployed three times with the Linux bridge
and hardly any traffic; the bench's own clock is read from the records. With --most-deploy and
--most-remove the exit code shows whether the best run stayed within them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import argparse
import json
import subprocess
import tempfile


def timings(environment: str, pairs: int, results: str) -> list[tuple[float, float]]:
    """Return (deploy_s, teardown_s) of three trials. Raises SystemExit if a trial fails."""
    notation = f"(V=linux-bridge, S={pairs}, R=50, B=1, environment={environment}, duration=2s)"
    done = subprocess.run(
        [sys.executable, "-m", "switchmark.cli.main", "run", notation, "--set", "repetitions=3",
         "--no-baseline", "--json", "--quiet", "--results", results],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{environment}: exit code {done.returncode}")
    records = json.loads(done.stdout)
    return [(one["timing"]["deploy_s"], one["timing"]["teardown_s"]) for one in records]


def main() -> int:
    """Print a line for each environment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--environment", action="append")
    parser.add_argument("--most-deploy", type=float)
    parser.add_argument("--most-remove", type=float)
    options = parser.parse_args()
    are_met = True
    for environment in options.environment or ["netns", "lxc"]:
        with tempfile.TemporaryDirectory() as results:
            times = timings(environment, options.pairs, results)
        deploy_s, remove_s = (min(column) for column in zip(*times, strict=True))
        every = ", ".join(f"{deploy:.2f}/{remove:.2f}" for deploy, remove in times)
        print(f"{environment}: {options.pairs} pairs deployed in {deploy_s:.2f} s, removed in "
              f"{remove_s:.2f} s (each run: {every})")  # fmt: skip
        are_met &= options.most_deploy is None or deploy_s <= options.most_deploy
        are_met &= options.most_remove is None or remove_s <= options.most_remove
    return 0 if are_met else 1


if __name__ == "__main__":
    sys.exit(main())
