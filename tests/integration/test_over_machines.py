"""Three simulated machines on one host, with different names and cores: the same campaign on each,
and the output of `compare --over-machines`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import needs_namespaces

CAMPAIGN = """name: over
switch: [linux-bridge, tc-redirect]
environment: netns
packet_size: 64
duration: 300ms
repetitions: 8
"""
# Both cores, one of them, the other one with the lowest priority.
MACHINES = {"lab1": [], "lab2": ["taskset", "-c", "0"], "lab3": ["nice", "taskset", "-c", "1"]}

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    needs_namespaces,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores"),
]


def test_three_machines_are_distinguished_and_combined(tmp_path: Path) -> None:
    campaign, results = tmp_path / "over.yaml", tmp_path / "results"
    campaign.write_text(CAMPAIGN)
    bench = [sys.executable, "-m", "switchmark.cli.main"]
    for name, limits in MACHINES.items():
        run = [*limits, *bench, "run", campaign, "--results", results, "--no-baseline", "-q"]
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]
        subprocess.run([*named, *run], check=True, capture_output=True)
    page = tmp_path / "machines.html"
    compared = subprocess.run(
        [*bench, "compare", *sorted(results.iterdir()), "--over-machines", "--threshold", "0.9",
         "--json", "--html", page],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    found = json.loads(compared.stdout)
    assert found["machines"] == ["lab1", "lab2", "lab3"]
    (line,) = found["comparisons"]
    assert [one["machine"] for one in line["machines"]] == found["machines"]
    assert all(one["pairs"] <= 8 for one in line["machines"])
    if all(one["ratio"] for one in line["machines"]):  # trials may fail under the machine's load
        over = line["over_machines"]
        assert over["machines"] == 3
        values = [one["ratio"]["value"] for one in line["machines"]]
        assert min(values) <= over["value"] <= max(values)
        assert over["predicted_low"] <= over["low"] <= over["high"] <= over["predicted_high"]
        assert over["spread"]["low"] <= over["spread"]["factor"] <= over["spread"]["high"]
    assert "a further machine" in page.read_text() or not line["over_machines"]
