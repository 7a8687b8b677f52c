"""Figures as Bencher Metric Format (https://bencher.dev/docs/reference/bencher-metric-format/):
a JSON object of benchmarks, each an object of measures with value and bounds.

A benchmark is a trial with its notation as name. A measure is a figure with its unit in its name.
The bounds are the 95 % confidence interval; they are left out if there is no interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from switchmark.model.workload import BITS
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

LONGEST_NAME = 1024  # limit of Bencher for names of benchmarks
LONGEST_MEASURE = 64

Bmf = dict[str, dict[str, dict[str, float]]]


def bmf(rows: Iterable[SummaryRow]) -> Bmf:
    """Return the valid figures of a run's rows."""
    benchmarks: Bmf = {}
    for row in rows:
        if not row.finished or not row.valid:
            continue
        name = row.notation if row.notation not in benchmarks else f"{row.notation} {row.contender}"
        benchmarks[name[:LONGEST_NAME]] = {
            _slug(measure): _metric(value) for measure, value in _figures(row)
        }
    return {name: measures for name, measures in benchmarks.items() if measures}


def _figures(row: SummaryRow) -> Iterator[tuple[str, Estimate]]:
    if row.method is not None:
        for figure in row.method.figures:
            yield f"{figure.name} {figure.unit}", figure.value
        return
    if row.throughput is not None:
        yield "forwarded pps", row.throughput.forwarded_pps
        yield "loss ratio", row.throughput.loss_ratio
    if row.transfer is not None:
        name = "goodput bps" if row.transfer.unit == BITS else "requests per s"
        yield name, row.transfer.completed_per_s
    if row.latency is not None:
        yield "rtt p50 ns", row.latency.median_ns
        yield "rtt p99 ns", row.latency.median_p99_ns


def _metric(value: Estimate) -> dict[str, float]:
    metric = {"value": value.mean}
    if value.low is not None and value.high is not None:
        metric |= {"lower_value": value.low, "upper_value": value.high}
    return metric


def _slug(name: str) -> str:
    """Return the name of a measure in Bencher's form: lower case, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_MEASURE]
