"""`switchmark trial --method`: every method runs as a trial, is stored, shown and reported.

About the way of the data, not about figures: those are in test_truth_*.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.machine import needs_root

pytestmark = [
    pytest.mark.integration,
    needs_root,
]

METHODS = {
    "ndr-pdr": ["--rate", "20k", "--set", "goals=quick", "--set", "budget=15s"],
    "r-plus": ["--duration", "300ms"],
    "plateau": ["--duration", "300ms"],
    "loss-vs-load": ["--rate", "20k", "--duration", "300ms"],
    "back-to-back": ["--rate", "20k", "--set", "budget=8s"],
    "recovery": ["--rate", "5k", "--duration", "300ms"],
    "reconfiguration": ["--rate", "5k", "--duration", "500ms"],
    "soak": ["--rate", "5k", "--duration", "2s"],
}


def switchmark(state: Path, *args: str) -> str:
    environment = {**os.environ, "SWITCHMARK_STATE_DIR": f"/tmp/smtm{os.getpid()}"}
    done = subprocess.run(
        [sys.executable, "-m", "switchmark.cli.main", *args],
        capture_output=True, text=True, timeout=180, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def trial(results: Path, switch: str, method: str, *args: str) -> dict[str, Any]:
    printed = switchmark(
        results, "trial", switch, "--method", method, "--no-baseline", "--json", "--quiet",
        "--results", str(results), *args,
    )  # fmt: skip
    (record,) = json.loads(printed)
    assert record["status"] == "finished", record["message"]
    return dict(record)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_run_stored_and_shown(tmp_path: Path, method: str) -> None:
    record = trial(tmp_path, "linux-bridge", method, *METHODS[method])
    found = record["method"]
    assert found["method"] == method
    assert found["trial_count"] == len(found["trials"]) > 0
    assert sum(one["offered_frames"] for one in found["trials"]) > 0
    assert record["limit"]["what"]
    shown = switchmark(tmp_path, "show", "--results", str(tmp_path))
    assert "Methods of many trials" in shown
    assert method in shown
    flat = json.loads(switchmark(tmp_path, "show", "--json", "--results", str(tmp_path)))
    assert [row["method_trials"] for row in flat] == [found["trial_count"]]


def test_calibration_is_of_the_wire_and_reported(tmp_path: Path) -> None:
    record = trial(tmp_path, "direct", "calibrate", "--set", "port_kind=veth", "-t", "300ms")
    figures = {one["name"]: one["value"] for one in record["method"]["figures"]}
    assert figures["ceiling"] > 0
    assert figures["one-way floor, median"] > 0
    page = tmp_path / "page.html"
    switchmark(tmp_path, "report", "--results", str(tmp_path), "--output", str(page))
    assert "one-way floor" in page.read_text()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["linux-bridge", "--method", "calibrate"], "use switch: direct"),
        (["tc-redirect", "--method", "reconfiguration"], "tc-redirect: no way is known"),
        (["direct", "--method", "recovery"], "needs a switch"),
        (["linux-bridge", "--method", "soak"], "give its rate"),
        (["linux-bridge", "--method", "r-plus", "-d", "latency"], "dimension: throughput"),
        (["linux-bridge", "--method", "ndrpdr"], "did you mean ndr-pdr"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, args: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "switchmark.cli.main", "trial", *args, "--results", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert says in done.stderr
