"""Attach: the time until a new container reaches others, and the time to detach it.

Rounds of attachments follow each other for the duration of the trial. In each round, `at_once`
namespaces are attached at the same time, each waits for its first reply through the network, and
all are detached one after the other. The ends of the pairs stay attached. The start time of the
plugins' programs is measured separately. No other traffic runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from switchmark.errors import Refusal
from switchmark.method.support.method import Method, trials_of_full_length
from switchmark.method.support.task import Task
from switchmark.model.attaching import Attacher
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import WIRE
from switchmark.record import MethodFigure, MethodResult
from switchmark.record.metric import method_metric
from switchmark.statistics.order_statistics import ranks_of

FEWEST = 20  # attachments, however short the duration is
STARTS = 10  # times that all programs are started
FIRST_NUMBER = 1000  # the ends of the pairs have smaller numbers
HEADLINE = "attach p50"
_PERCENTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


@dataclass(slots=True)
class Times:
    """All times of a trial, in seconds."""

    add: list[float] = field(default_factory=list)
    answer: list[float] = field(default_factory=list)
    delete: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)


def measure(attacher: Attacher, at_once: int, duration_s: float) -> Times:
    """Attach and detach in rounds until the duration is over."""
    times = Times(start=[attacher.seconds_to_start() for _ in range(STARTS)])
    deadline = time.monotonic() + duration_s
    numbers = range(FIRST_NUMBER, FIRST_NUMBER + at_once)
    with ThreadPoolExecutor(at_once, thread_name_prefix="switchmark-attach") as threads:
        while time.monotonic() < deadline or len(times.add) < FEWEST:
            for attached in threads.map(attacher.attach_timed, numbers):
                times.add.append(attached.add_s)
                times.answer.append(attached.answer_s)
            times.delete += map(attacher.detach_timed, numbers)
    return times


def percentile(values: Sequence[float], quantile: float, name: str) -> MethodFigure:
    """Return a percentile with its 95 % interval by order statistics. The bounds are left out if
    there are too few values."""
    ordered = sorted(values)
    low, high = ranks_of(len(ordered), quantile)
    bounded = low is not None and high is not None
    return MethodFigure(
        name=name,
        value=ordered[min(len(ordered) - 1, int(quantile * len(ordered)))],
        unit="s",
        low=ordered[low - 1] if bounded and low is not None else None,
        high=ordered[high - 1] if bounded and high is not None else None,
        count=len(ordered),
    )


def run(task: Task) -> MethodResult:
    """Measure how long attaching and detaching take."""
    times = measure(task.attacher(), task.trial.at_once, task.trial.duration_s)
    parts = {"attach": times.answer, "ADD": times.add, "DEL": times.delete}
    figures = [
        percentile(values, quantile, f"{part} {name}")
        for part, values in parts.items()
        for name, quantile in _PERCENTILES
    ]
    after = [answer - add for answer, add in zip(times.answer, times.add, strict=True)]
    figures.append(percentile(after, 0.5, "first answer after ADD p50"))
    figures.append(percentile(times.start, 0.5, "start of the programs p50"))
    present = 2 * task.trial.pairs
    notes = [f"{present} attachments present, {task.trial.at_once} in progress at the same time"]
    return task.result(HEADLINE, figures, notes=notes)


def refusals(_sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
    """Return why nothing can be attached to this switch; empty if it can."""
    if switch != WIRE and not capabilities.attaches:
        yield Refusal(
            f"method attach measures attachments to a network, and {switch} has none",
            "use switch: cni",
        )


METHOD = Method(
    name="attach",
    meaning="time of CNI ADD until the first answer through the network, and of DEL",
    run=run,
    usual_time_s=trials_of_full_length(1),
    fixed_time=True,
    compared=tuple(
        method_metric(name, "s") for name in (HEADLINE, "attach p99", "ADD p50", "DEL p50")
    ),
    needs_switch=True,
    needs_load=False,
    refuse=refusals,
    one_host="its network is on this host; leave location: remote out",
    reads=("at_once",),
    limited_by="switch",
)
