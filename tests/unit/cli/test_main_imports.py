"""A bench that measures loads no library that it needs only later, or never: it starts sooner."""

from __future__ import annotations

import subprocess
import sys

LATER = ("polars", "duckdb", "prometheus_client")  # for tables, and for `--metrics`


def test_bench_starts_without_imports_for_tables() -> None:
    code = f"import sys, switchmark.cli.measure; print([m for m in {LATER} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_plan_starts_without_imports_for_devices() -> None:
    code = "import sys, switchmark.cli.plan; print('pyroute2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
