"""`run --metrics PORT`: metrics of a running campaign for Prometheus (OpenMetrics 1.0).

The collector observes the campaign. A scrape reads only its memory and never the machine, so it
does not disturb a trial.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from switchmark.campaign.notation import to_notation
from switchmark.cli.output import note
from switchmark.errors import UnavailableError
from switchmark.formatting import printable
from switchmark.http_guard import cannot_listen, parse_place, shown
from switchmark.model.campaign import CampaignDefinition
from switchmark.record import MethodFigure, Record, Throughput, Transfer
from switchmark.statistics.histogram import Histogram
from switchmark.trial.plan import TrialPlan
from switchmark.version import __version__

BUCKETS_S = tuple(digit * 10.0**power for power in range(-6, 1) for digit in (1, 2, 5))
_TRIAL = ("switch", "trial")


@dataclass(frozen=True, slots=True)
class _ScrapedFigures:
    """The figures of one record. They are computed when the trial ends, so that a scrape is
    fast."""

    loads: Throughput | None
    delays: tuple[list[tuple[str, float]], float] | None
    of_method: Sequence[MethodFigure]
    transfer: Transfer | None = None

    @classmethod
    def of(cls, record: Record) -> _ScrapedFigures:
        delays = None
        if record.latency is not None:
            delays = bucketed(record.latency.histogram)
        found = record.method.figures if record.method is not None else ()
        return cls(record.throughput, delays, found, record.transfer)


class CampaignMetrics(Collector):
    """An observer of a campaign that Prometheus can read."""

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._lock = Lock()  # a scrape comes from another thread
        self._total = 0
        self._left_s = 0.0
        self._running: tuple[str, str] | None = None
        self._live_pps: float | None = None
        self._ended = {"finished": 0, "failed": 0}
        self._invalid = 0
        self._figures: dict[tuple[str, str], _ScrapedFigures] = {}

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """See `Observer`."""
        del number
        trial = plan.trial.repeated(0)
        with self._lock:
            self._total, self._left_s, self._live_pps = total, left_s, None
            self._running = trial.switch, to_notation(trial)

    def live(self, forwarded_pps: float | None) -> None:
        """See `Observer`."""
        with self._lock:
            self._live_pps = forwarded_pps

    def trial_ended(self, record: Record) -> None:
        """See `Observer`."""
        with self._lock:
            self._ended[record.status] += 1
            self._running = self._live_pps = None
            if record.status == "finished" and record.verdict is not None:
                self._invalid += not record.verdict.valid
                if record.verdict.valid:
                    trial = record.trial.repeated(0)
                    self._figures[trial.switch, to_notation(trial)] = _ScrapedFigures.of(record)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        with self._lock:
            figures, campaign = dict(self._figures), list(self._of_campaign())
        yield from campaign
        yield from _of_trials(figures)

    def _of_campaign(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "switchmark_campaign",
            "The campaign that runs.",
            {"campaign": self._campaign, "version": __version__},
        )
        yield GaugeMetricFamily(
            "switchmark_trials_planned",
            "Number of trials of the campaign; 0 if it is not known before the end.",
            self._total,
        )
        ended = CounterMetricFamily(
            "switchmark_trials", "Trials that have ended.", labels=["status"]
        )
        for status, count in self._ended.items():
            ended.add_metric([status], count)
        yield ended
        yield CounterMetricFamily(
            "switchmark_trials_not_valid",
            "Finished trials whose figure must not be used.",
            self._invalid,
        )
        yield GaugeMetricFamily(
            "switchmark_time_left_seconds",
            "Estimated time to the end of the campaign when the last trial began.",
            self._left_s,
        )
        running = GaugeMetricFamily(
            "switchmark_trial_running", "1 for the trial that is measured now.", labels=_TRIAL
        )
        live = GaugeMetricFamily(
            "switchmark_live_packets_per_second",
            "Forwarding rate in the latest sample of the trial that runs.",
            labels=_TRIAL,
        )
        if self._running is not None:
            running.add_metric(self._running, 1)
            if self._live_pps is not None:
                live.add_metric(self._running, self._live_pps)
        yield running
        yield live


def _of_trials(figures: dict[tuple[str, str], _ScrapedFigures]) -> Iterator[Metric]:
    forwarded = GaugeMetricFamily(
        "switchmark_forwarded_packets_per_second",
        "Forwarded load of the last valid repetition.",
        labels=_TRIAL,
    )
    loss = GaugeMetricFamily(
        "switchmark_loss_ratio", "Share of frames lost in the last valid repetition.", labels=_TRIAL
    )
    delays = HistogramMetricFamily(
        "switchmark_round_trip_seconds",
        "Round-trip times of the last valid repetition.",
        labels=_TRIAL,
    )
    completed = GaugeMetricFamily(
        "switchmark_application_throughput",
        "Throughput of an application in the last valid repetition, in the unit that the label "
        "names.",
        labels=[*_TRIAL, "unit"],
    )
    methods = GaugeMetricFamily(
        "switchmark_method_figure",
        "Figures of a method of many trials, in the unit that the label names.",
        labels=[*_TRIAL, "figure", "unit"],
    )
    for labels, scraped in figures.items():
        if scraped.loads is not None:
            forwarded.add_metric(labels, scraped.loads.forwarded_pps)
            loss.add_metric(labels, scraped.loads.loss_ratio)
        if scraped.transfer is not None:
            completed.add_metric([*labels, scraped.transfer.unit], scraped.transfer.completed_per_s)
        if scraped.delays is not None:
            delays.add_metric(labels, *scraped.delays)
        for figure in scraped.of_method:
            methods.add_metric([*labels, figure.name, figure.unit], figure.value)
    yield from (forwarded, loss, completed, delays, methods)


def bucketed(times: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Return the cumulative counts up to each bound, as Prometheus has them, and the sum in
    seconds. A slot of the HDR histogram counts at its highest time."""
    counts = [0] * (len(BUCKETS_S) + 1)
    sum_s = 0.0
    for low, high, count in times.slots():
        counts[bisect_left(BUCKETS_S, high / 1e9)] += count
        sum_s += count * (low + high) / 2e9
    bounds = [*(f"{bound:.6g}" for bound in BUCKETS_S), "+Inf"]
    return list(zip(bounds, map(float, accumulate(counts)), strict=True)), sum_s


@contextmanager
def serving(place: str, campaign: CampaignDefinition) -> Iterator[Sequence[CampaignMetrics]]:
    """Serve the metrics of a campaign at this place while it runs."""
    host, port = where = parse_place(place, "--metrics")
    metrics = CampaignMetrics(printable(campaign.name))
    registry = CollectorRegistry()  # the default registry reads /proc
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        why = error.strerror or str(error)
        raise UnavailableError(cannot_listen("--metrics", where, why)) from None
    note(f"metrics: http://{shown((host, server.server_port))}/metrics")
    try:
        yield (metrics,)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
