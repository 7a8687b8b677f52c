"""The worked examples of docs/extending*.md, run in a copy of the package with one more file
each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.extending import bench_in, copy_with, example
from tests.integration.machine import needs_root
from tests.integration.main_job import ATTEMPTS, STARVED, need

pytestmark = [pytest.mark.integration, needs_root]


def measured(package: Path, *args: str) -> dict[str, Any]:
    """Return the record of a trial by this copy of the package; a trial without a core is
    repeated."""
    for attempt in range(ATTEMPTS):
        results = package.parent / f"results{attempt}"
        arguments = ("trial", *args, "--no-baseline", "--duration", "2s", "--results", str(results))
        try:
            bench_in(package, *arguments, timeout_s=180)
        except AssertionError as error:
            if STARVED not in str(error):
                raise
        else:
            (record,) = results.glob("*/trials/*.json")
            return dict(json.loads(record.read_text()))
    pytest.skip("the machine is too busy")


def test_a_new_switch_forwards(tmp_path: Path, state_dir: None) -> None:
    need(["tc-redirect"])
    text = example("class TcRedirect").replace('name = "tc-redirect"', 'name = "patch-cable"')
    package = copy_with(tmp_path, "switch/patch_cable.py", text)
    record = measured(package, "patch-cable", "--rate", "1k")
    assert record["status"] == "finished" and record["trial"]["switch"] == "patch-cable"
    assert record["connect_mode"] == "cross-connect"
    assert record["throughput"]["forwarded_pps"] > 0


@pytest.mark.slow
def test_a_new_method_measures(tmp_path: Path, state_dir: None) -> None:
    need(["linux-bridge"])
    package = copy_with(tmp_path, "method/overload_loss.py", example("overload-loss"))
    record = measured(package, "linux-bridge", "--method", "overload-loss")
    found = record["method"]
    assert (found["method"], found["headline"]) == ("overload-loss", "loss under overload")
    assert found["trial_count"] == len(found["trials"]) >= 5
    (figure,) = found["figures"]
    assert 0 <= figure["value"] < 1 and figure["count"] == 5


def test_a_new_environment_measures(tmp_path: Path, state_dir: None) -> None:
    need(["linux-bridge"])
    package = copy_with(tmp_path, "environment/low_priority.py", example("low-priority"))
    record = measured(package, "linux-bridge", "--environment", "low-priority", "--rate", "1k")
    assert record["status"] == "finished" and record["trial"]["environment"] == "low-priority"
    assert record["throughput"]["forwarded_pps"] > 0
