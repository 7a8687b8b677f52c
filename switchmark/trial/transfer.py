"""A trial whose traffic is an application: its throughput, or the round trips of its requests.

Intended is the rate of the campaign, offered what the client wrote or asked, completed what the
server read or what was answered, over the kept window of each. Facts that the program cannot know
are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev
from typing import Any

from switchmark.engine.loads import NO_FRAMES
from switchmark.errors import TrialFailed
from switchmark.instrument.support.reading import CountedInterval, RoundTrips
from switchmark.instrument.support.workload import WorkloadReading
from switchmark.model.campaign import TrimPolicy
from switchmark.model.choices import Dimension
from switchmark.model.trial import Trial
from switchmark.record import Figures, PairTransfer, Transfer, Trim
from switchmark.statistics.order_statistics import percentile_intervals_ns
from switchmark.trial.foreign import ON_SCHEDULE_SHARE, round_trip_times
from switchmark.trial.recording import Measurement
from switchmark.trial.traffic import Tick
from switchmark.trial.trim import describe, kept_intervals, window_ns
from switchmark.trial.workload_runs import WorkloadRuns


def measure(trial: Trial, run: WorkloadRuns, policy: TrimPolicy, tick: Tick) -> Measurement:
    """Let the application run once on ports that are verified. Raises `TrialFailed`."""
    reading = run.measure(tick)
    if trial.dimension is Dimension.LATENCY:
        figures, trim, samples = _latency(trial, run, reading)
    else:
        figures, trim, samples = _throughput(trial, run, reading, policy)
    return Measurement(
        figures=figures,
        trim=trim,
        kept_samples=samples,
        source_counters=NO_FRAMES,
        sink_counters=NO_FRAMES,
        on_schedule=_on_schedule(trial, run),
        stretch=max(0.0, reading.duration_ns / (trial.duration_s * 1e9) - 1),
        passed_frames=run.passed_packets,
        sent_frames=_datagrams_sent(run, reading),
        socket_drops=run.datagrams_dropped,
        cpu=[run.cpu()],
        far_cpu=run.far_cpu(),
    )


def _throughput(
    trial: Trial, run: WorkloadRuns, reading: WorkloadReading, policy: TrimPolicy
) -> tuple[Figures, Trim, int]:
    whole = (0, max((one.t_ns for one in reading.client.counts), default=reading.duration_ns))
    window = whole if reading.warm_up else window_ns(policy, *whole)
    workload = run.workload
    each = 8 if workload.is_stream else 1  # bits of a byte
    pairs = _pairs(trial, run, window, each)
    done = list(kept_intervals(reading.server.counts, window))
    completed = sum(pair.completed_per_s for pair in pairs)
    payload = (reading.payload_forth or 0) + reading.payload_back
    share = completed / (each * reading.done) if reading.done else 0.0  # 1/s
    trim = describe(policy, *whole, reading.server.counts)
    if reading.warm_up:
        trim = trim.model_copy(
            update={
                "policy": reading.warm_up,
                "kept_from_ns": whole[0],
                "kept_to_ns": whole[1],
                "samples_kept": len(done),
                "samples_dropped": len(reading.server.counts) - len(done),
            }
        )
    figures = Figures(
        transfer=Transfer(
            unit=workload.unit,
            intended_per_s=trial.rate_pps and trial.rate_pps * len(run.parts),
            offered_per_s=sum(pair.offered_per_s for pair in pairs),
            completed_per_s=completed,
            stdev_per_s=_stdev(done, each),
            goodput_bps=completed if workload.is_stream else None,
            transactions_per_s=None if workload.is_stream else completed,
            payload_bps=completed if workload.is_stream else 8 * payload * share,
            loss_ratio=0.0
            if (workload.is_stream and workload.protocol == "tcp") or not reading.sent
            else max(0, reading.sent - reading.done) / reading.sent,
            samples=len(done),
            pairs=pairs if len(pairs) > 1 else [],
        )
    )
    trim = trim.model_copy(
        update={
            "policy": f"{trim.policy}; by {trial.generator}'s own clock",
            "kept_from_ns": run.begun_ns + trim.kept_from_ns,
            "kept_to_ns": run.begun_ns + trim.kept_to_ns,
        }
    )
    return figures, trim, len(done)


def _pairs(
    trial: Trial, run: WorkloadRuns, window: tuple[int, int], each: int
) -> list[PairTransfer]:
    """Return the throughput of each pair. Raises `TrialFailed` if one has no sample in the
    window."""
    shares = []
    for part in run.parts:
        assert part.reading is not None, "it has run"
        sent = list(kept_intervals(part.reading.client.counts, window))
        done = list(kept_intervals(part.reading.server.counts, window))
        for end, counts in (("client", sent), ("server", done)):
            if not counts:
                raise TrialFailed(
                    f"no sample of {trial.generator}'s {end} lies wholly in the kept window: "
                    "measure longer, or trim less"
                )
        shares.append(
            PairTransfer(
                pair=part.pair,
                began_after_ns=max(0, part.begun_ns - run.begun_ns),
                offered_per_s=each * _per_s(sent),
                completed_per_s=each * _per_s(done),
            )
        )
    return shares


def _datagrams_sent(run: WorkloadRuns, reading: WorkloadReading) -> int:
    """Return the datagrams that the client sent; 0 of TCP, which has none."""
    if run.workload.protocol != "udp":
        return 0
    return reading.sent // (run.datagram_bytes if run.workload.is_stream else 1)


def _per_s(counts: Sequence[CountedInterval]) -> float:
    """All amounts over the true length of all intervals."""
    return sum(one.frames for one in counts) * 1e9 / sum(one.duration_ns for one in counts)


def _stdev(counts: Sequence[CountedInterval], each: int) -> float:
    rates = [each * one.frames * 1e9 / one.duration_ns for one in counts]
    return stdev(rates) if len(rates) > 1 else 0.0


def _on_schedule(trial: Trial, run: WorkloadRuns) -> bool:
    """Return True if each client sent at its intended rate, by its counts. A stream whose
    connection is full cannot write more: that is its throughput, and not the client's fault."""
    stream = run.workload.is_stream
    if trial.rate_pps is None or (stream and run.workload.protocol == "tcp"):
        return True
    per_s = trial.rate_pps / (8 if stream else 1)
    readings = [part.reading for part in run.parts if part.reading is not None]
    return all(each.sent >= ON_SCHEDULE_SHARE * per_s * each.duration_ns / 1e9 for each in readings)


def _due(timed: RoundTrips | None) -> dict[str, Any]:
    """Return the figures from the moment when requests were due; none if the program lacks them."""
    if timed is None:
        return {}
    return {
        "intended_percentiles_ns": timed.histogram.percentiles_ns(max_ns=timed.max_ns),
        "intended_percentile_intervals_ns": percentile_intervals_ns(timed.histogram, timed.max_ns),
        "intended_mean_ns": timed.mean_ns,
        "intended_stdev_ns": timed.stdev_ns,
        "intended_max_ns": timed.max_ns,
        "intended_histogram": timed.histogram,
    }


def _latency(
    trial: Trial, run: WorkloadRuns, reading: WorkloadReading
) -> tuple[Figures, Trim, int]:
    timed = reading.round_trips
    if timed is None or not timed.histogram.count:
        raise TrialFailed(f"no request of {trial.generator} was answered: there is no latency")
    lost = max(0, reading.sent - reading.done)
    latency = round_trip_times(timed, lost, **_due(reading.from_due))
    trim = Trim(
        policy=reading.warm_up or "none: every request counts",
        kept_from_ns=run.begun_ns,
        kept_to_ns=run.begun_ns + reading.duration_ns,
        samples_kept=timed.histogram.count,
        samples_dropped=0,
    )
    return Figures(latency=latency), trim, timed.histogram.count
