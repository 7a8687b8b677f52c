"""Schedules and probes through the whole bench, on a real bridge between two namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make namespaces and devices"),
]
SHORT = ["--set", "trim.warm_up=200ms", "--set", "trim.cool_down=100ms", "--set", "interval=50ms"]


def trial(results: Path, *args: str) -> dict[str, Any]:
    """The record of one trial on a Linux bridge, which has finished."""
    command = [sys.executable, "-m", "switchmark.cli.main", "trial", "linux-bridge", *args]
    command += ["--no-baseline", "--json", "--quiet", "--results", str(results)]
    environment = {**os.environ, "SWITCHMARK_STATE_DIR": f"/tmp/smts{os.getpid()}"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["status"] == "finished", record["message"]
    return dict(record)


@pytest.mark.parametrize("io", ["raw-mmsg", "udp"])
def test_round_trips_under_load_are_of_the_probes(tmp_path: Path, io: str) -> None:
    record = trial(
        tmp_path, "-d", "latency", "--rate", "20k", "--burst", "8", "--set", "probe_rate=500",
        "--io", io, "-t", "1s", *SHORT,
    )  # fmt: skip
    found = record["latency"]
    assert found["kind"] == "rtt"
    assert 350 < found["count"] + found["lost"] < 650  # Poisson, mean 500
    assert found["beside"]["probe_rate_pps"] == 500
    assert found["beside"]["intended_pps"] == 20_000
    assert 10_000 < found["beside"]["offered_pps"] <= 20_100
    assert record["reconciliation"]["agrees"], record["reconciliation"]
    assert "probe_rate=500" in record["notation"]


def test_latency_at_fractions_of_r_plus_is_of_the_probes(tmp_path: Path) -> None:
    record = trial(tmp_path, "--method", "r-plus", "--set", "probe_rate=1k", "-t", "300ms", *SHORT)
    at_loads = record["method"]["latency"]
    assert [one["fraction"] for one in at_loads] == [0.1, 0.5, 0.99]
    for one in at_loads:
        assert one["probe_rate_pps"] == 1000
        assert one["burst"] == 32  # the load's own
        assert 100 < one["latency"]["count"] + one["latency"]["lost"] < 500  # mean 300
        assert one["latency"]["kind"] == "one_way"


def test_on_off_traffic_is_intended_for_the_share_of_its_on_time(tmp_path: Path) -> None:
    record = trial(
        tmp_path, "--rate", "20k", "--burst", "4", "--set", "schedule=on-off:10ms:30ms",
        "-t", "1500ms", *SHORT,
    )  # fmt: skip
    loads = record["throughput"]
    assert loads["intended_pps"] == pytest.approx(5000, rel=0.1)
    assert loads["forwarded_pps"] <= loads["intended_pps"] * 1.05
    assert "unstable" not in record["verdict"]["marks"]


def test_a_rate_in_bits_is_kept_as_packets(tmp_path: Path) -> None:
    record = trial(
        tmp_path, "--rate", "10Mbps-l1", "--packet-size", "500", "--set", "schedule=poisson",
        "--burst", "1", "-t", "1s", *SHORT,
    )  # fmt: skip
    assert record["trial"]["rate_pps"] == 2404  # 10e6 / (8 * 520)
    (sender,) = [one for one in record["engines"] if one["role"] == "sender"]
    config = sender["result"]["config"]
    assert config["schedule"] == {"shape": "poisson", "seed": 1}
    assert config["rate_l1_bps"] == pytest.approx(10e6, rel=1e-3)
