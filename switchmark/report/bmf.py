"""Figures as Bencher Metric Format (https://bencher.dev/docs/reference/bencher-metric-format/):
a JSON object of benchmarks, each an object of measures with value and bounds.

A benchmark is a trial by its notation, a measure a figure with its unit in its name; the bounds
are the 95 % confidence interval, left out where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from switchmark.model.workload import BITS
from switchmark.results.rows import SummaryRow
from switchmark.statistics.means import Estimate

LONGEST_NAME = 1024  # of a benchmark, by Bencher
LONGEST_MEASURE = 64

Bmf = dict[str, dict[str, dict[str, float]]]


def bmf(rows: Iterable[SummaryRow]) -> Bmf:
    """The valid figures of a run's rows."""
    found: Bmf = {}
    for row in rows:
        if not row.finished or not row.valid:
            continue
        name = row.notation if row.notation not in found else f"{row.notation} {row.contender}"
        found[name[:LONGEST_NAME]] = {
            _slug(measure): _metric(value) for measure, value in _figures(row)
        }
    return {name: measures for name, measures in found.items() if measures}


def _figures(row: SummaryRow) -> Iterator[tuple[str, Estimate]]:
    if row.method is not None:
        for one in row.method.figures:
            yield f"{one.name} {one.unit}", one.value
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
    found = {"value": value.mean}
    if value.low is not None and value.high is not None:
        found |= {"lower_value": value.low, "upper_value": value.high}
    return found


def _slug(name: str) -> str:
    """A measure's name in Bencher's form: lower case, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_MEASURE]
