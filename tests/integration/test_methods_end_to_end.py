"""`switchmark trial --method`: every method runs as a trial, is stored, shown and reported.

test_truth_*.py tests the figures.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli.main import run
from tests.integration.machine import needs_root
from tests.integration.main_job import ATTEMPTS, STARVED

pytestmark = [
    pytest.mark.integration,
    needs_root,
]

CAMPAIGN = """
name: methods
switch: linux-bridge
rate: 20k
duration: 200ms
sweeps:
  - {method: ndr-pdr, goals: quick, method_budget: 5s}
  - {method: r-plus, rate: max, method_budget: 3s}
  - {method: plateau, rate: max}
  - {method: loss-vs-load}
  - {method: back-to-back, method_budget: 4s}
  - {method: recovery, rate: 5k}
  - {method: reconfiguration, rate: 5k}
"""
METHODS = ("ndr-pdr", "r-plus", "plateau", "loss-vs-load", "back-to-back", "recovery",
           "reconfiguration")  # fmt: skip
STATE = Path(f"/tmp/smtm{os.getpid()}")
ENVIRONMENT = {**os.environ, "SWITCHMARK_STATE_DIR": str(STATE)}


@pytest.fixture(scope="module", autouse=True)
def no_state_is_left() -> Iterator[None]:
    yield
    shutil.rmtree(STATE, ignore_errors=True)


def switchmark(*args: str) -> str:
    """Return the output of a command; it is repeated if an application had no core by the trial's
    own message."""
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [sys.executable, "-m", "switchmark.cli.main", *args],
            capture_output=True, text=True, timeout=400, env=ENVIRONMENT, check=False,
        )  # fmt: skip
        if done.returncode == 0 or STARVED not in done.stdout:
            break
        args = (*args, "--resume") if args[0] == "run" and "--resume" not in args else args
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def trial(results: Path, switch: str, method: str, *args: str) -> dict[str, Any]:
    printed = switchmark(
        "trial", switch, "--method", method, "--no-baseline", "--json", "--quiet",
        "--results", str(results), *args,
    )  # fmt: skip
    (record,) = json.loads(printed)
    assert record["status"] == "finished", record["message"]
    return dict(record)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("methods")


@pytest.fixture(scope="module")
def records(results: Path) -> dict[str, dict[str, Any]]:
    """Records of a campaign in which every method runs once."""
    file = results / "methods.yaml"
    file.write_text(CAMPAIGN)
    printed = switchmark("run", str(file), "--no-baseline", "--json", "--quiet",
                         "--results", str(results))  # fmt: skip
    return {record["trial"]["method"]: record for record in json.loads(printed)}


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_run_and_stored(method: str, records: dict[str, dict[str, Any]]) -> None:
    record = records[method]
    assert record["status"] == "finished", record["message"]
    found = record["method"]
    assert found["method"] == method
    assert found["trial_count"] == len(found["trials"]) > 0
    assert sum(one["offered_frames"] for one in found["trials"]) > 0
    assert record["limit"]["factor"]


@pytest.mark.alone
def test_methods_are_shown(results: Path, records: dict[str, dict[str, Any]]) -> None:
    shown = switchmark("show", "--full", "--results", str(results))
    assert "Methods of many trials" in shown
    assert [method for method in METHODS if method not in shown] == []
    assert "one-way median at 0.5 R+ " in shown and "one-way p99 at 0.5 R+ " in shown
    flat = json.loads(switchmark("show", "--json", "--results", str(results)))
    counts = {row["method"]: row["method_trials"] for row in flat}
    assert counts == {method: records[method]["method"]["trial_count"] for method in METHODS}


def test_a_method_of_one_trial_alone(tmp_path: Path) -> None:
    record = trial(tmp_path, "linux-bridge", "soak", "--rate", "5k", "--duration", "1s")
    assert record["method"]["method"] == "soak"
    assert sum(one["offered_frames"] for one in record["method"]["trials"]) > 0


def test_calibration_is_of_the_wire_and_reported(tmp_path: Path) -> None:
    record = trial(
        tmp_path,
        "direct",
        "calibrate",
        "--set",
        "port_kind=veth",
        "-t",
        "200ms",
        "--set",
        "method_budget=10s",
    )
    figures = {one["name"]: one["value"] for one in record["method"]["figures"]}
    assert figures["ceiling"] > 0
    assert figures["one-way floor, median"] > 0
    page = tmp_path / "page.html"
    switchmark("report", "--results", str(tmp_path), "--html", str(page))
    assert "one-way floor" in page.read_text()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["linux-bridge", "--method", "calibrate"], "use switch: direct"),
        (["basicfwd", "--method", "reconfiguration"], "basicfwd: its ports are fixed at its start"),
        (["direct", "--method", "recovery"], "needs a switch"),
        (["linux-bridge", "--method", "soak"], "give its rate"),
        (["linux-bridge", "--method", "r-plus", "-d", "latency"], "dimension: throughput"),
        (["linux-bridge", "--method", "ndrpdr"], "did you mean ndr-pdr"),
    ],
)
def test_impossible_combination_is_refused(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, args: list[str], says: str
) -> None:
    assert run(["trial", *args, "--results", str(tmp_path)]) == 2
    assert says in capfd.readouterr().err
