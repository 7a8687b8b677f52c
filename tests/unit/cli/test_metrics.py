"""`run --metrics`: the metrics for Prometheus; a scrape does not query the machine."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from switchmark.cli.metrics import BUCKETS_S, CampaignMetrics, bucketed, serving
from switchmark.errors import UnavailableError, UsageError
from switchmark.http_guard import cannot_listen, parse_place
from tests.unit.records import synthetic_failure, synthetic_histogram, synthetic_record
from tests.unit.records import synthetic_trial as trial_of

DASHBOARD = Path(__file__).parents[3] / "docs/grafana/switchmark.json"
CAMPAIGN = SimpleNamespace(name="nightly")


def begins(metrics: Any, trial: Any) -> None:
    metrics.trial_begins(1, 4, SimpleNamespace(trial=trial), 12.5)


def scrape(url: Any) -> Any:
    request = urllib.request.Request(
        url, headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert "openmetrics-text" in answer.headers["Content-Type"]
        return answer.read().decode()


def values(text: Any) -> Any:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_follow_the_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    latency = synthetic_record(trial_of(dimension="latency"))
    load = synthetic_record(trial_of(), marks=[])
    with serving("0", CAMPAIGN) as (metrics,):
        url = re.search(r"http://127.0.0.1:\d+/metrics", capsys.readouterr().err)[0]
        begins(metrics, trial_of())
        metrics.live(123456.0)
        during = values(scrape(url))
        for record in (load, latency, synthetic_failure()):
            metrics.trial_ended(record)
        after = values(scrape(url))
    names = {name for name, _ in during}
    assert not any(name.startswith(("process_", "python_")) for name in names)
    assert {
        v for (name, _), v in during.items() if name == "switchmark_live_packets_per_second"
    } == {123456.0}
    assert after["switchmark_trials_total", (("status", "finished"),)] == 2
    assert after["switchmark_trials_total", (("status", "failed"),)] == 1
    output = {name: v for (name, _), v in after.items()}
    assert output["switchmark_forwarded_packets_per_second"] == load.throughput.forwarded_pps
    assert output["switchmark_round_trip_seconds_count"] == latency.latency.count
    assert "switchmark_live_packets_per_second" not in output


def test_invalid_figure_is_counted_and_not_exported() -> None:
    registry = CollectorRegistry()
    metrics = CampaignMetrics("nightly")
    registry.register(metrics)
    metrics.trial_ended(synthetic_record(marks=["flooding"]))
    assert registry.get_sample_value("switchmark_trials_not_valid_total") == 1
    families = {family.name: family.samples for family in registry.collect()}
    assert families["switchmark_forwarded_packets_per_second"] == []


def test_a_scrape_reads_nothing_from_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = CampaignMetrics("nightly")
    begins(metrics, trial_of())
    metrics.trial_ended(synthetic_record(trial_of(dimension="latency")))

    def never(*_arguments: Any, **_named: Any) -> None:
        raise AssertionError("a scrape opened a file")

    monkeypatch.setattr("builtins.open", never)
    monkeypatch.setattr("os.open", never)
    assert len(list(metrics.collect())) > 8


def test_buckets_hold_every_sample_where_it_belongs() -> None:
    times = synthetic_histogram(31_000)
    counts, sum_s = bucketed(times)
    assert counts[-1] == ("+Inf", times.count)
    assert len(counts) == len(BUCKETS_S) + 1
    median_s = times.percentiles_ns(["50"])["50"] / 1e9
    below = max(count for bound, count in counts[:-1] if float(bound) < median_s)
    above = min(count for bound, count in counts[:-1] if float(bound) >= median_s)
    assert below < times.count / 2 <= above
    assert sum_s / times.count == pytest.approx(median_s, rel=0.2)


def test_places() -> None:
    assert parse_place("9464", "--metrics") == ("127.0.0.1", 9464)
    assert parse_place("0.0.0.0:9464", "--metrics") == ("0.0.0.0", 9464)
    assert parse_place("[::1]:9464", "--metrics") == ("::1", 9464)
    for bad in ("", "http", "70000", "-1"):
        with pytest.raises(UsageError, match="is not a port"):
            parse_place(bad, "--metrics")
    assert "--metrics [::1]:9464: " in cannot_listen("--metrics", ("::1", 9464), "in use")


def test_port_in_use_is_reported_with_a_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            pytest.raises(UnavailableError, match="name another port"),
            serving(str(taken.getsockname()[1]), CAMPAIGN),
        ):
            pass


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    known = set()
    for family in CampaignMetrics("x").collect():
        known |= {
            family.name,
            f"{family.name}_total",
            f"{family.name}_bucket",
            f"{family.name}_info",
        }
    panels = json.loads(DASHBOARD.read_text())["panels"]
    requested = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(requested) >= len(panels)
    for expression in requested:
        names = re.findall(r"switchmark_\w+", expression)
        assert names and set(names) <= known, expression
