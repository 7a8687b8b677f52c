"""How long many pairs take to come and to go: `python bench/deploy.py --pairs 64`.

Root, and a machine that does nothing else. Each environment is deployed three times with the
Linux bridge and hardly any traffic; the bench's own clock is read from the records. With
--most-deploy and --most-remove the exit code says whether the best run kept within them.
"""

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
    """(deploy_s, teardown_s) of three trials. Raises SystemExit when one fails."""
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
    asked = parser.parse_args()
    kept = True
    for environment in asked.environment or ["netns", "lxc"]:
        with tempfile.TemporaryDirectory() as results:
            seen = timings(environment, asked.pairs, results)
        deploy_s, remove_s = (min(column) for column in zip(*seen, strict=True))
        every = ", ".join(f"{deploy:.2f}/{remove:.2f}" for deploy, remove in seen)
        print(f"{environment}: {asked.pairs} pairs deployed in {deploy_s:.2f} s, removed in "
              f"{remove_s:.2f} s (each run: {every})")  # fmt: skip
        kept &= asked.most_deploy is None or deploy_s <= asked.most_deploy
        kept &= asked.most_remove is None or remove_s <= asked.most_remove
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
