"""A real Prometheus scrapes a real campaign and evaluates every query of the dashboard."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.main_job import SHORT, Bench, need, new_bench, went_well
from tests.integration.waiting import until

DASHBOARD = Path(__file__).parents[2] / "docs/grafana/switchmark.json"
PROMETHEUS = os.environ.get("SWITCHMARK_PROMETHEUS") or shutil.which("prometheus")

pytestmark = pytest.mark.integration
bench = pytest.fixture(new_bench)


def free_port() -> Any:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port: Any, expression: Any) -> Any:
    """Return the raw answer. Raises HTTPError for an invalid PromQL expression."""
    parameters = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{parameters}") as answer:
        found = json.load(answer)
    assert found["status"] == "success"
    return found["data"]["result"]


def query(port: Any, expression: Any) -> Any:
    """Return labels and value of each series."""
    return [(one["metric"], float(one["value"][1])) for one in ask(port, expression)]


@contextmanager
def prometheus(folder: Any, target: Any) -> Iterator[Any]:
    """Scrape `target` five times a second; yields the port of Prometheus once it is ready."""
    port = free_port()
    folder.mkdir(exist_ok=True)
    config = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"},
        "scrape_configs": [{"job_name": "test", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is valid YAML
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )

        def ready() -> Any:
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready") as answer:
                    return answer.status == 200
            except OSError:
                return False

        try:
            until(ready, "Prometheus", 60)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def scraped(port: Any, expression: Any) -> Any:
    """Return every value of it that was scraped so far."""
    return [value for _, value in query(port, expression)]


@pytest.mark.skipif(
    PROMETHEUS is None,
    reason="no program `prometheus` (apt install prometheus, or SWITCHMARK_PROMETHEUS=PATH)",
)
def test_prometheus_watches_a_campaign(bench: Bench, tmp_path: Path) -> None:
    need(switches=["linux-bridge"])
    port = free_port()
    settings = (*SHORT, "duration=1s", "throughput.rate=20k")
    campaign = tmp_path / "watched.yaml"
    campaign.write_text(
        "switch: linux-bridge\ndimension: [latency, throughput]\nthroughput: {rate: 20k}\n"
    )
    sets = [word for one in settings for word in ("--set", one)]
    with prometheus(tmp_path, f"127.0.0.1:{port}") as server_port:
        job = bench.start("run", str(campaign), *sets, "--metrics", str(port))
        job.until(lambda: scraped(server_port, "max_over_time(up[1m])") == [1], "a scrape")
        code, _, err = job.end()
        assert went_well(code, err), err
        records = bench.records()
        stored = [one for one in records if one.status == "finished"]
        assert stored, err
        # Prometheus has the figures before the bench ended, that is, all but the last trial.
        (planned,) = scraped(server_port, "max_over_time(switchmark_trials_planned[10m])")
        assert planned == len(records)
        ended = sum(scraped(server_port, "max_over_time(switchmark_trials_total[10m])"))
        assert 0 < ended <= len(records)
        running = query(server_port, "max_over_time(switchmark_trial_running[10m])")
        assert {labels["switch"] for labels, _ in running} <= {"direct", "linux-bridge"}
        assert len({labels["trial"] for labels, _ in running}) == len(running) > 1
        known = {one.throughput.forwarded_pps for one in stored if one.throughput}
        rates = scraped(server_port, "max_over_time(switchmark_forwarded_packets_per_second[10m])")
        assert set(rates) <= known
        counts = scraped(server_port, "max_over_time(switchmark_round_trip_seconds_count[10m])")
        assert set(counts) <= {one.latency.count for one in stored if one.latency}
        assert rates or counts, "no figure reached Prometheus"
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            for target in panel["targets"]:
                query(server_port, target["expr"])
