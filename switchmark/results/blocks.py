"""The records of a run as blocks: each contender's figure in each block, or the reason why a trial
does not count.

A block measures every contender of a test point once. Its number is the repetition. If a run was
interrupted in the middle of a block, the trials before and after the interruption are two blocks,
because a disturbance of the first trials did not concern trials hours later.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from switchmark.model.trial import Trial
from switchmark.model.value import parse_utc
from switchmark.record import Record
from switchmark.record.metric import RUN_METRICS, Metric, method_metric
from switchmark.statistics.blocks import BlockTrial
from switchmark.statistics.states import LEAST_STEP, state_figures
from switchmark.statistics.two_bands import STEPS_AT_ENDS

_METRICS = {metric.name: metric for metric in RUN_METRICS}
_LATENCIES = {"rtt-p50": "50", "rtt-p99": "99"}  # the first one decides
WITHOUT_RATIO = "a figure of 0 has no ratio"


@dataclass(frozen=True, slots=True)
class Observed:
    """The parts of a record that are needed for a comparison by blocks."""

    trial: Trial  # with repetition 0
    block: int  # number of the repetition in the campaign
    part: int  # number of interruptions before; in a pool, number of the lease
    start_s: float  # POSIX time
    end_s: float
    figures: Mapping[Metric, float]  # the first one decides
    unused: str = ""  # why the trial does not count; empty: it counts
    line_before_ns: float | None = None
    line_after_ns: float | None = None
    cores: str = ""  # cores whose cache line was timed
    samples: tuple[float, ...] = ()  # samples of the figure that decides
    testbed: str = ""  # testbed of a pool
    is_baseline: bool = False  # measured only to judge other trials
    page_size_kib: int | None = None  # page size of DPDK's memory; None: no DPDK memory

    @property
    def contender(self) -> str:
        """The contender: the id of its first trial at this test point."""
        return self.trial.id


def observe(record: Record, resumed: Sequence[datetime] = ()) -> Observed:
    """Read a record as an observation; `resumed` are the times at which the run was resumed."""
    begun, ended = parse_utc(record.started_at), parse_utc(record.ended_at)
    before, after = record.state_before, record.state_after
    testbed, lease = _of_pool(record)
    cores = _cores(before.cores) if before and before.cores else ""
    all_figures = _figures(record)
    figures = {metric: value for metric, value in all_figures.items() if value > 0}
    return Observed(
        trial=record.trial.repeated(0),
        block=record.trial.repetition,
        part=lease or bisect_right(resumed, begun),
        start_s=begun.timestamp(),
        end_s=ended.timestamp(),
        figures=figures,
        unused=_unused(record) or (WITHOUT_RATIO if all_figures and not figures else ""),
        line_before_ns=before.line_ns if before else None,
        line_after_ns=after.line_ns if after else None,
        cores=f"{testbed}: {cores}" if testbed and cores else cores,
        samples=_samples(record),
        testbed=testbed,
        is_baseline=record.serves_others,
        page_size_kib=record.page_size_kib,
    )


def as_block_trials(observed: Iterable[Observed], metric: Metric) -> list[BlockTrial]:
    """Return the figure of one metric of each trial, for the comparison by blocks."""
    ordered = sorted(observed, key=lambda trial: trial.start_s)
    parts = sorted({(trial.block, trial.part) for trial in ordered})
    numbers = {part: number for number, part in enumerate(parts)}
    begin_s = ordered[0].start_s if ordered else 0.0
    return [
        BlockTrial(
            block=numbers[trial.block, trial.part],
            contender=trial.contender,
            start_s=trial.start_s - begin_s,
            figure=None if trial.unused else trial.figures.get(metric),
            line_before_ns=trial.line_before_ns,
            line_after_ns=trial.line_after_ns,
            cores=trial.cores,
            samples=trial.samples,
        )
        for trial in ordered
    ]


def left_out(observed: Sequence[Observed], metric: Metric) -> dict[str, int]:
    """Return the reasons why trials do not count, and the number of trials for each."""
    reasons = Counter(trial.unused for trial in observed if trial.unused)
    counted = [trial for trial in observed if not trial.unused and metric in trial.figures]
    changed = sum(figure is None for figure in state_figures(as_block_trials(counted, metric)))
    if changed:
        reasons["the machine's state changed too often meanwhile"] = changed
    return dict(reasons)


def _of_pool(record: Record) -> tuple[str, int]:
    """Return the testbed and the lease number of the block; without a pool, empty and 0. Trials of
    another agent, hours later, are another block."""
    testbed, lease = (record.provenance.get(name) for name in ("testbed", "fencing_token"))
    if not isinstance(testbed, str):
        return "", 0
    return testbed, lease if isinstance(lease, int) else 0


def _figures(record: Record) -> dict[Metric, float]:
    """Return the figures that are compared."""
    figures: dict[Metric, float] = {}
    if record.throughput is not None:
        figures[_METRICS["forwarded"]] = record.throughput.forwarded_pps
    elif record.transfer is not None:
        transfer = record.transfer
        name = "goodput" if transfer.goodput_bps is not None else "transactions"
        figures[_METRICS[name]] = transfer.completed_per_s
    elif record.latency is not None:
        times_ns = record.latency.percentiles_ns
        figures = {_METRICS[name]: times_ns[key] for name, key in _LATENCIES.items()}
    elif record.method and (figure := record.method.figure(record.method.headline)):
        figures = {method_metric(figure.name, figure.unit): figure.value}
    return figures


def _cores(used: Sequence[int]) -> str:
    """Return the cores of a reading in the order in which they were read. If there are two cores,
    the order does not matter."""
    first, others = used[0], sorted(used[1:])
    ordered = sorted(used) if len(used) == 2 else [first, *others]
    return ",".join(map(str, ordered))


def _unused(record: Record) -> str:
    if record.status == "failed":
        return "failed"
    if record.verdict is None or not record.verdict.valid:
        return "not valid"
    return ""


def _samples(record: Record) -> tuple[float, ...]:
    """Forwarded load in each kept sample, summed over the receivers, in frames/s."""
    if record.throughput is None or record.trim is None:
        return ()
    kept_from, kept_to = record.trim.kept_from_ns, record.trim.kept_to_ns
    loads = record.throughput
    receivers = [
        engine for engine in record.engines if engine.role in ("receiver", "duplex", "tester")
    ]
    series = [
        [
            sample.counters.get("rx_frames", 0) * 1e9 / sample.duration_ns
            for sample in engine.intervals
            if sample.duration_ns
            and sample.t_ns - sample.duration_ns >= kept_from
            and sample.t_ns <= kept_to
        ]
        for engine in receivers
    ]
    samples = tuple(map(sum, zip(*series, strict=False)))
    # A few bursts in a sample look like a step of the rate.
    step_pps = (loads.burst_pps or 0.0) * len(samples)
    return (
        samples if STEPS_AT_ENDS * step_pps < math.expm1(LEAST_STEP) * loads.forwarded_pps else ()
    )
