"""Synthetic records for tests: invented numbers in the true shape, never measurements.

Every record made here is marked: its campaign is "synthetic" and its provenance has
`synthetic: true`. The same arguments always give the same record.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.ports import ConnectMode
from switchmark.model.trial import Trial
from switchmark.record import (
    CpuCost,
    EngineRun,
    Interval,
    Latency,
    Limit,
    PairLoads,
    Placement,
    Record,
    Throughput,
    Timing,
    TrialVerdict,
    Trim,
    Verification,
)
from switchmark.record.marks import explain, marks_are_valid
from switchmark.results.run_directory import Run
from switchmark.statistics.histogram import Histogram

# frames per second at 64 B, and seconds per byte beyond: invented, in a plausible order
PROFILES: dict[str, tuple[float, float, float, str, str]] = {
    # name: (pps at 64 B, ns a byte, median RTT us, port kind, io)
    "linux-bridge": (410e3, 0.15, 31.0, "veth", "raw-mmsg"),
    "basicfwd": (3.9e6, 0.07, 9.5, "vhost-user", "dpdk"),
    "ovs-dpdk": (3.5e6, 0.07, 11.5, "vhost-user", "dpdk"),
    "ovs-netdev": (300e3, 0.2, 60.0, "veth", "raw-mmsg"),
    "direct": (5.6e6, 0.06, 6.0, "vhost-user", "dpdk"),
}
STARTED = datetime(2025, 11, 21, 12, 0, tzinfo=UTC)


def synthetic_trial(**changes: Any) -> Trial:
    """A throughput trial of 64 B frames through linux-bridge, with changes."""
    values: dict[str, Any] = {
        "dimension": Dimension.THROUGHPUT,
        "switch": "linux-bridge",
        "packet_size_bytes": 64,
        "environment": "lxc",
        "connect_mode": ConnectMode.LEARNING,
        "duration_s": 5.0,
    }
    if changes.get("switch") == "direct":
        values["spare_cores"] = 1  # a baseline leaves the core of the switch idle
    return Trial(**(values | changes))


def synthetic_failure(trial: Trial | None = None, message: str = "the switch died") -> Record:
    """A trial that could not be completed."""
    trial = trial or synthetic_trial()
    return Record(
        trial_id=trial.id,
        trial=trial,
        campaign="synthetic",
        run_id="abc123",
        status="failed",
        message=message,
        started_at=_utc(0),
        ended_at=_utc(3),
        notation=_notation(trial),
        provenance={"synthetic": True},
    )


def synthetic_record(
    trial: Trial | None = None, *, marks: list[str] | None = None, number: int = 0, **changes: Any
) -> Record:
    """A finished record of this trial. `changes` replace whole fields."""
    trial = trial or synthetic_trial()
    generator = random.Random(trial.id)
    marks = ["oversubscribed"] if marks is None else marks
    _, _, _, port_kind, io = PROFILES[trial.switch]
    values: dict[str, Any] = {
        "trial_id": trial.id,
        "trial": trial,
        "campaign": "synthetic",
        "run_id": "abc123",
        "status": "finished",
        "started_at": _utc(number * 10),
        "ended_at": _utc(number * 10 + 7),
        "notation": _notation(trial),
        "connect_mode": trial.connect_mode,
        "port_kind": port_kind,
        "io": io if trial.io is Io.AUTO else trial.io.value,
        "placement": Placement(
            switch_cores=[] if trial.switch == "direct" else [0],
            application_cores={"a0": [1], "b0": [1]},
            bench_cores=[1],
            oversubscribed=True,
            reason="2 cores: the switch has core 0 to itself, both applications share core 1",
            idle="yield",
        ),
        "verification": Verification(
            frames_sent=6,
            frames_arrived=6,
            strays=0,
            witness_frames=0,
            passed=True,
            message="3 of 3 frames arrived each way, none elsewhere",
        ),
        "verdict": TrialVerdict(
            valid=marks_are_valid(marks), marks=marks, explanations=[explain(m) for m in marks]
        ),
        "cpu": CpuCost(
            switch_cores_used=None if port_kind == "veth" else 1.0,
            applications_cores_used=0.98,
            softirq_cores_used=0.4 if port_kind == "veth" else 0.0,
            run_delay_share=0.46,
            total_cores_used=1.98 if port_kind == "vhost-user" else 1.38,
        ),
        "timing": Timing(
            deploy_s=0.41, verify_s=0.12, measure_s=5.0, teardown_s=0.2, overhead_s=0.8
        ),
        "switch_details": {"version": "synthetic 1.0", "bridge.forward_delay": "0"},
        "switch_counters_before": {"0": {"rx_frames": 6, "tx_frames": 6}},
        "switch_counters_after": {"0": {"rx_frames": 17_500_006, "tx_frames": 6}},
        "switch_log": "synthetic log line\n",
        "provenance": {
            "synthetic": True,
            "kernel": "6.18.0",
            "cpu": {"model": "Invented CPU @ 3.00GHz", "cores": 2, "governor": "unknown"},
            "switchmark_version": "0.1.0",
        },
    }
    if trial.dimension is Dimension.THROUGHPUT:
        values |= _throughput(trial, generator)
    else:
        values |= _latency(trial, generator)
    return Record(**(values | changes))


def quick_records(repetitions: int = 3, *, direct: bool = True) -> list[Record]:
    """Something like the built-in campaign `quick`: switches x sizes x dimensions."""
    switches = ["linux-bridge", "basicfwd", "ovs-dpdk"] + (["direct"] if direct else [])
    records: list[Any] = []
    for dimension in Dimension:
        for switch in switches:
            for size in (64, 1500):
                for repetition in range(repetitions):
                    trial = synthetic_trial(
                        dimension=dimension,
                        switch=switch,
                        packet_size_bytes=size,
                        repetition=repetition,
                        rate_pps=None if dimension is Dimension.THROUGHPUT else 10_000,
                    )
                    records.append(synthetic_record(trial, number=len(records)))
    return records


def write_run(
    root: Path, records: list[Record], campaign: str = "synthetic", **definition: Any
) -> Path:
    """A results directory that holds these records; returns its path."""
    with Run.create(
        root,
        campaign=campaign,
        campaign_text=f"name: {campaign}\n",
        definition={"name": campaign, **definition},
        settings={"repetitions": 3},
        host={"synthetic": True, "kernel": "6.18.0", "cores": 2},
    ) as run:
        for record in records:
            run.write(record)
        return run.directory


def synthetic_histogram(median_ns: float, count: int = 20_000, seed: int = 0) -> Histogram:
    """A histogram of log-normal times with one in a thousand ten times as long."""
    return _histogram(round(median_ns), count, seed)


@lru_cache(maxsize=256)
def _histogram(median_ns: int, count: int, seed: int) -> Histogram:
    source = np.random.default_rng(seed)
    values = median_ns * np.exp(source.normal(0, 0.22, count))
    values[source.random(count) < 0.001] *= 10
    buckets, counts = np.unique(values.astype(np.int64), return_counts=True)
    return Histogram.of(dict(zip(buckets.tolist(), counts.tolist(), strict=True)), 10_000_000_000)


def _throughput(trial: Trial, generator: random.Random) -> dict[str, Any]:
    base_pps, ns_per_byte, *_ = PROFILES[trial.switch]
    capacity = 1e9 / (1e9 / base_pps + ns_per_byte * (trial.packet_size_bytes - 64))
    capacity *= generator.gauss(1, 0.02)
    intended = None if trial.rate_pps is None else float(trial.rate_pps * trial.pairs)
    forwarded = capacity if intended is None else min(capacity, intended)
    offered = forwarded * 1.06 if intended is None else intended
    engines, trim = _engines(trial, generator, offered, forwarded)
    return {
        "throughput": Throughput(
            intended_pps=intended,
            offered_pps=offered,
            forwarded_pps=forwarded,
            forwarded_l2_bps=forwarded * trial.packet_size_bytes * 8,
            forwarded_l1_bps=forwarded * (trial.packet_size_bytes + 20) * 8,
            forwarded_stdev_pps=forwarded * 0.01,
            loss_ratio=(offered - forwarded) / offered,
            jain_fairness=1.0 if trial.pairs > 1 else None,
            reordered_ratio=0.0,
            max_reorder_extent=0,
            pairs=[
                PairLoads(
                    pair=pair,
                    intended_pps=None if intended is None else intended / trial.pairs,
                    offered_pps=offered / trial.pairs,
                    forwarded_pps=forwarded / trial.pairs,
                    lost_frames=round((offered - forwarded) * trial.duration_s / trial.pairs),
                    duplicates=0,
                    reordered=0,
                    corrupt=0,
                )
                for pair in range(trial.pairs)
            ],
        ),
        "limit": Limit(
            factor="switch",
            evidence=["sender found its ring full on 41 % of its calls", "receiver idle on 55 %"],
        ),
        "engines": engines,
        "trim": trim,
    }


def _latency(trial: Trial, generator: random.Random) -> dict[str, Any]:
    median_us = PROFILES[trial.switch][2] * generator.gauss(1, 0.02)
    count = 4_000
    seed = generator.randrange(4)  # few seeds, so that encoding is cached and tests stay quick
    histogram = synthetic_histogram(round(median_us) * 1e3, count, seed)
    late = synthetic_histogram(round(median_us * 1.1) * 1e3, count, seed)
    values = histogram.percentiles_ns()
    engines, trim = _engines(trial, generator, 10_000.0, 10_000.0, roles=("client", "server"))
    return {
        "latency": Latency(
            kind="rtt",
            count=count,
            min_ns=values["50"] * 0.3,
            mean_ns=values["50"] * 1.03,
            stdev_ns=values["50"] * 0.3,
            max_ns=values["99.999"],
            percentiles_ns=values,
            intended_percentiles_ns=late.percentiles_ns(),
            histogram=histogram,
            intended_histogram=late,
            lost=0,
        ),
        "limit": Limit(factor="rate", evidence=["every intended frame was offered and answered"]),
        "engines": engines,
        "trim": trim,
    }


def _engines(
    trial: Trial,
    generator: random.Random,
    offered_pps: float,
    forwarded_pps: float,
    roles: tuple[str, str] = ("sender", "receiver"),
) -> tuple[list[EngineRun], Trim]:
    interval_ns = round(trial.interval_s * 1e9)
    samples = max(1, round(trial.duration_s / trial.interval_s))
    warm_up, cool_down = (2, 1) if samples > 5 else (0, 0)
    runs = []
    for pair in range(trial.pairs):
        for role, offset_ns in zip(roles, (3_000_000, 0), strict=True):
            rates = (offered_pps, forwarded_pps) if role == "client" else (offered_pps, 0.0)
            if role in ("receiver", "server"):
                rates = (0.0 if role == "receiver" else forwarded_pps, forwarded_pps)
            intervals = []
            for index in range(samples):
                warm = 0.4 + 0.3 * index if index < warm_up else 1.0
                factor = warm * generator.gauss(1, 0.01) * trial.interval_s / trial.pairs
                intervals.append(
                    Interval(
                        index=index,
                        t_ns=10**12 + offset_ns + (index + 1) * interval_ns,
                        duration_ns=interval_ns,
                        counters={
                            "tx_offered": round(rates[0] * factor),
                            "rx_frames": round(rates[1] * factor),
                            "ring_full_polls": 100,
                            "idle_polls": 200,
                            "cpu_ns": interval_ns // 2,
                        },
                    )
                )
            runs.append(
                EngineRun(
                    node=f"{'a' if role == roles[0] else 'b'}{pair}",
                    role=role,
                    pair=pair,
                    args=[role, "--port", "null", "--frame-size", str(trial.packet_size_bytes)],
                    ready={"role": role, "engine_version": "synthetic", "idle": "yield"},
                    intervals=intervals,
                    result={"reason": "duration", "duration_ns": samples * interval_ns},
                )
            )
    trim = Trim(
        policy=f"fixed: first {warm_up} and last {cool_down} samples",
        kept_from_ns=10**12 + warm_up * interval_ns,
        kept_to_ns=10**12 + (samples - cool_down) * interval_ns,
        samples_kept=samples - warm_up - cool_down,
        samples_dropped=warm_up + cool_down,
    )
    return runs, trim


def _notation(trial: Trial) -> str:
    rate = trial.rate_pps or "max"
    return (
        f"({trial.dimension}, {trial.location}, {trial.pairs}vs{trial.pairs}, {trial.switch}, "
        f"{trial.packet_size_bytes}, {rate}, {trial.burst})"
    )


def _utc(seconds: float) -> str:
    return (STARTED + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
