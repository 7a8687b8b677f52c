"""A figure that can be compared between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.errors import UsageError
from switchmark.model.choices import Dimension

AT_LEAST = " at least"  # ends the name of a lower bound
_LESS_IS_BETTER = frozenset({"s", "ns", "ratio"})  # times, and shares that were lost


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure by its name, and its column in the table of results."""

    name: str
    column: str
    dimension: Dimension
    higher_is_better: bool
    unit: str

    @property
    def is_bound(self) -> bool:
        """Return True for the lower bound of a search that did not find the limit. It depends on
        the loads that were tried, so two bounds have no meaningful ratio."""
        return self.name.endswith(AT_LEAST)


def method_metric(name: str, unit: str) -> Metric:
    """A figure of a method of many trials, by its name in the record; it has no column."""
    return Metric(name, "", Dimension.THROUGHPUT, unit not in _LESS_IS_BETTER, unit)


RUN_METRICS = (
    Metric("forwarded", "forwarded_pps", Dimension.THROUGHPUT, True, "pps"),
    Metric("goodput", "goodput_bps", Dimension.THROUGHPUT, True, "bit/s"),
    Metric("transactions", "transactions_per_s", Dimension.THROUGHPUT, True, "requests/s"),
    Metric("rtt-p50", "rtt_p50_ns", Dimension.LATENCY, False, "ns"),
    Metric("rtt-p99", "rtt_p99_ns", Dimension.LATENCY, False, "ns"),
    Metric("rtt-p99.9", "rtt_p99.9_ns", Dimension.LATENCY, False, "ns"),
    Metric("rtt-mean", "rtt_mean_ns", Dimension.LATENCY, False, "ns"),
)
_ONLY_BY_NAME = frozenset({"rtt-p99.9", "rtt-mean"})  # not compared unless they are named
_CALLED = {"throughput": "forwarded", "latency": "rtt-p50"}


def chosen(
    names: Sequence[str] | None, of_methods: Sequence[Metric], option: str = "--metric"
) -> list[Metric]:
    """The metrics of these names; without names, those that are usually compared. Raises
    `UsageError` naming the known ones."""
    known = {metric.name: metric for metric in (*RUN_METRICS, *of_methods)}
    if not names:
        return [metric for name, metric in known.items() if name not in _ONLY_BY_NAME]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"{option} {unknown[0]}: unknown; known are {', '.join(known)}")
    return [known[name] for name in names]


def figures_called(names: Sequence[str], of_methods: Sequence[Metric]) -> list[Metric]:
    """The metrics by the words of `--figure`, which include throughput and latency; see
    `chosen`."""
    return chosen([_CALLED.get(name, name) for name in names], of_methods, "--figure")
