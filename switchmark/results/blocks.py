"""The records of a run as blocks: each contender's figure in each block, or why a trial does not
count.

A block measures every contender of a point once. Its number is the repetition; where a run was
interrupted in the middle of a block, the trials before and after are two blocks, since trials that
are hours apart were not disturbed alike.
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
WITHOUT_RATIO = "a figure of 0: it has no ratio"


@dataclass(frozen=True, slots=True)
class Observed:
    """The parts of a record that a comparison by blocks reads."""

    trial: Trial  # its repetition 0
    block: int  # as the campaign counts them
    part: int  # how often the run had been interrupted before; in a pool: which lease it was
    start_s: float  # POSIX time
    end_s: float
    figures: Mapping[Metric, float]  # the first decides
    unused: str = ""  # why it counts for nothing; empty: it counts
    line_before_ns: float | None = None
    line_after_ns: float | None = None
    cores: str = ""  # between which the lines went
    samples: tuple[float, ...] = ()  # of the figure that decides
    testbed: str = ""  # where a pool measured it
    is_baseline: bool = False  # measured only to judge other trials
    page_size_kib: int | None = None  # of DPDK's memory; None: none is used

    @property
    def contender(self) -> str:
        """The contender, as one word: the id of its first trial at this point."""
        return self.trial.id


def observe(record: Record, resumed: Sequence[datetime] = ()) -> Observed:
    """Read a record as an observation; `resumed` are the times at which the run went on."""
    begun, ended = parse_utc(record.started_at), parse_utc(record.ended_at)
    before, after = record.state_before, record.state_after
    testbed, lease = _of_pool(record)
    cores = _cores(before.cores) if before and before.cores else ""
    found = _figures(record)
    figures = {metric: value for metric, value in found.items() if value > 0}
    return Observed(
        trial=record.trial.repeated(0),
        block=record.trial.repetition,
        part=lease or bisect_right(resumed, begun),
        start_s=begun.timestamp(),
        end_s=ended.timestamp(),
        figures=figures,
        unused=_unused(record) or (WITHOUT_RATIO if found and not figures else ""),
        line_before_ns=before.line_ns if before else None,
        line_after_ns=after.line_ns if after else None,
        cores=f"{testbed}: {cores}" if testbed and cores else cores,
        samples=_samples(record),
        testbed=testbed,
        is_baseline=record.serves_others,
        page_size_kib=record.page_size_kib,
    )


def as_block_trials(observed: Iterable[Observed], metric: Metric) -> list[BlockTrial]:
    """The trials that statistics compare: the figure of one metric, block by block."""
    held = sorted(observed, key=lambda one: one.start_s)
    parts = sorted({(one.block, one.part) for one in held})
    numbers = {part: number for number, part in enumerate(parts)}
    begin_s = held[0].start_s if held else 0.0
    return [
        BlockTrial(
            block=numbers[one.block, one.part],
            contender=one.contender,
            start_s=one.start_s - begin_s,
            figure=None if one.unused else one.figures.get(metric),
            line_before_ns=one.line_before_ns,
            line_after_ns=one.line_after_ns,
            cores=one.cores,
            samples=one.samples,
        )
        for one in held
    ]


def left_out(observed: Sequence[Observed], metric: Metric) -> dict[str, int]:
    """The reasons why trials do not count, and the number of trials for each."""
    reasons = Counter(one.unused for one in observed if one.unused)
    counted = [one for one in observed if not one.unused and metric in one.figures]
    changed = sum(said is None for said in state_figures(as_block_trials(counted, metric)))
    if changed:
        reasons["the machine's state changed too often meanwhile"] = changed
    return dict(reasons)  # (what makes a copy of a Counter would count its items)


def _of_pool(record: Record) -> tuple[str, int]:
    """The testbed, and the number of the block's lease: trials of another agent, hours later, are
    another block. Empty and 0 without a pool."""
    testbed, lease = (record.provenance.get(name) for name in ("testbed", "fencing_token"))
    if not isinstance(testbed, str):
        return "", 0
    return testbed, lease if isinstance(lease, int) else 0


def _figures(record: Record) -> dict[Metric, float]:
    """The figures that are compared."""
    found: dict[Metric, float] = {}
    if record.throughput is not None:
        found[_METRICS["forwarded"]] = record.throughput.forwarded_pps
    elif record.transfer is not None:
        seen = record.transfer
        name = "goodput" if seen.goodput_bps is not None else "transactions"
        found[_METRICS[name]] = seen.completed_per_s
    elif record.latency is not None:
        times_ns = record.latency.percentiles_ns
        found = {_METRICS[name]: times_ns[key] for name, key in _LATENCIES.items()}
    elif record.method and (figure := record.method.figure(record.method.headline)):
        found = {method_metric(figure.name, figure.unit): figure.value}
    return found


def _cores(used: Sequence[int]) -> str:
    """The cores of a reading, in the order in which they were read; of two cores, either order
    counts as the same."""
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
    receivers = [one for one in record.engines if one.role in ("receiver", "duplex", "tester")]
    series = [
        [
            sample.counters.get("rx_frames", 0) * 1e9 / sample.duration_ns
            for sample in one.intervals
            if sample.duration_ns
            and sample.t_ns - sample.duration_ns >= kept_from
            and sample.t_ns <= kept_to
        ]
        for one in receivers
    ]
    samples = tuple(map(sum, zip(*series, strict=False)))
    # Bursts alone look like steps if few of them are in a sample.
    step_pps = (loads.burst_pps or 0.0) * len(samples)
    return (
        samples if STEPS_AT_ENDS * step_pps < math.expm1(LEAST_STEP) * loads.forwarded_pps else ()
    )
