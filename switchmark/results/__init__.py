"""Results of runs: run directories, queries, summaries, comparisons, history and export."""

from __future__ import annotations

from pathlib import Path

DEFAULT_ROOT = Path("results")  # the folder of all runs, unless an option names another
