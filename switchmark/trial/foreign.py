"""A trial with a foreign generator: the same three loads, from the generator's own counts.

The intended load is that of the trial. The offered load comes from the frames that the sender
reports, the forwarded load from those that the receiver reports, both over the kept window. The
loss is that of the whole run. Facts that the generator cannot know are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, stdev
from typing import Any

from switchmark.engine.loads import NO_FRAMES, asked_pps, frame_rate
from switchmark.errors import TrialFailed
from switchmark.instrument.support.reading import CountedInterval, Reading, RoundTrips
from switchmark.model.campaign import TrimPolicy
from switchmark.model.choices import Dimension
from switchmark.model.rates import L1_OVERHEAD_BYTES
from switchmark.model.trial import Trial
from switchmark.record import Figures, Latency, PairLoads, Throughput, Trim
from switchmark.statistics.order_statistics import percentile_intervals_ns
from switchmark.trial.bursts import burst_noise_pps, burst_pps
from switchmark.trial.instrument_run import InstrumentRun
from switchmark.trial.recording import Measurement
from switchmark.trial.throughput import steady_run
from switchmark.trial.traffic import Tick
from switchmark.trial.trim import describe, kept_intervals, window_ns

ON_SCHEDULE_SHARE = 0.995  # share of the intended frames


def measure(trial: Trial, run: InstrumentRun, policy: TrimPolicy, tick: Tick) -> Measurement:
    """Run the generator once on ports that are verified. Raises `TrialFailed`."""
    reading = run.measure(tick)
    if trial.dimension is Dimension.LATENCY:
        return _latency(trial, run, reading)
    return _throughput(trial, run, reading, policy)


def _throughput(
    trial: Trial, run: InstrumentRun, reading: Reading, policy: TrimPolicy
) -> Measurement:
    window = window_ns(policy, 0, reading.duration_ns)
    sent = list(kept_intervals(reading.source.counts, window))
    received = list(kept_intervals(reading.target.counts, window))
    for end, samples in (("sender", sent), ("receiver", received)):
        if not samples:
            raise TrialFailed(
                f"no sample of {trial.generator}'s {end} lies wholly in the kept window: measure "
                "longer, or trim less"
            )
    loads = _loads(trial, reading, sent, received)
    l2_bps = loads.forwarded_pps * trial.packet_size_bytes * 8
    trim = describe(policy, 0, reading.duration_ns, reading.target.counts)
    sample_ns = median(one.duration_ns for one in received)
    return Measurement(
        figures=Figures(
            throughput=Throughput(
                intended_pps=loads.intended_pps,
                offered_pps=loads.offered_pps,
                forwarded_pps=loads.forwarded_pps,
                forwarded_l2_bps=l2_bps,
                forwarded_l1_bps=l2_bps + loads.forwarded_pps * 8 * L1_OVERHEAD_BYTES,
                forwarded_stdev_pps=_stdev_pps(received),
                loss_ratio=_lost(reading) / reading.source.frames if reading.source.frames else 0.0,
                burst_pps=burst_pps(trial, sum(one.duration_ns for one in received)),
                pairs=[loads],
                reordered_ratio=None
                if reading.reordered is None or not reading.target.frames
                else min(1.0, reading.reordered / reading.target.frames),
            )
        ),
        trim=trim.model_copy(
            update={
                "policy": f"{trim.policy}; by {trial.generator}'s own clock",
                "kept_from_ns": run.begun_ns + trim.kept_from_ns,
                "kept_to_ns": run.begun_ns + trim.kept_to_ns,
            }
        ),
        steady=steady_run(
            [frame_rate(one.frames, one.duration_ns) for one in reading.target.counts],
            burst_pps(trial, sample_ns),
        ),
        kept_samples=len(received),
        sample_noise_pps=burst_noise_pps(trial, sample_ns, loads.forwarded_pps, 1),
        source_counters=NO_FRAMES.model_copy(
            update={"tx_offered": sum(one.frames for one in sent)}
        ),
        sink_counters=NO_FRAMES.model_copy(
            update={"rx_frames": sum(one.frames for one in received)}
        ),
        sent_frames=reading.source.frames,
        socket_drops=run.socket_drops,
        on_schedule=_on_schedule(trial, reading),
        stretch=_stretch(trial, reading),
        passed_frames=reading.target.frames,
        cpu=[run.cpu()],
    )


def _loads(
    trial: Trial,
    reading: Reading,
    sent: Sequence[CountedInterval],
    received: Sequence[CountedInterval],
) -> PairLoads:
    return PairLoads(
        pair=0,
        intended_pps=asked_pps(trial, 1),
        offered_pps=_rate_pps(sent),
        forwarded_pps=_rate_pps(received),
        lost_frames=_lost(reading),
        duplicates=reading.duplicates,
        reordered=reading.reordered,
    )


def _lost(reading: Reading) -> int:
    return max(0, reading.source.frames - reading.target.frames)


def _rate_pps(counts: Sequence[CountedInterval]) -> float:
    """Return all frames, divided by the true length of all intervals."""
    return frame_rate(sum(one.frames for one in counts), sum(one.duration_ns for one in counts))


def _stdev_pps(counts: Sequence[CountedInterval]) -> float:
    rates = [frame_rate(one.frames, one.duration_ns) for one in counts]
    return stdev(rates) if len(rates) > 1 else 0.0


def _on_schedule(trial: Trial, reading: Reading) -> bool:
    """Return True if the generator sent at its intended rate, by its own counts."""
    if trial.rate_pps is None:
        return True
    intended_frames = trial.rate_pps * reading.duration_ns / 1e9
    return reading.source.frames >= ON_SCHEDULE_SHARE * intended_frames


def _stretch(trial: Trial, reading: Reading) -> float:
    return max(0.0, reading.duration_ns / (trial.duration_s * 1e9) - 1)


def round_trip_times(timed: RoundTrips, lost: int, **from_due: Any) -> Latency:
    """Return the round trips of a foreign generator as a record has them. `from_due`: the fields
    of the times from the moment when a request was due, if the generator reports them."""
    return Latency(
        kind="rtt",
        count=timed.histogram.count,
        min_ns=timed.min_ns,
        mean_ns=timed.mean_ns,
        stdev_ns=timed.stdev_ns,
        max_ns=timed.max_ns,
        percentiles_ns=timed.histogram.percentiles_ns(max_ns=timed.max_ns),
        percentile_intervals_ns=percentile_intervals_ns(timed.histogram, timed.max_ns),
        histogram=timed.histogram,
        lost=lost,
        **from_due,
    )


def _latency(trial: Trial, run: InstrumentRun, reading: Reading) -> Measurement:
    timed = reading.round_trips
    if timed is None or reading.answered is None or not timed.histogram.count:
        raise TrialFailed(f"no request of {trial.generator} was answered: there is no latency")
    return Measurement(
        figures=Figures(
            latency=round_trip_times(timed, max(0, reading.source.frames - reading.answered))
        ),
        trim=Trim(
            policy=f"as {trial.generator} does: its own warm-up is left out",
            kept_from_ns=run.begun_ns,
            kept_to_ns=run.begun_ns + reading.duration_ns,
            samples_kept=timed.histogram.count,
            samples_dropped=0,
        ),
        kept_samples=timed.histogram.count,
        source_counters=NO_FRAMES.model_copy(update={"tx_offered": reading.source.frames}),
        sink_counters=NO_FRAMES,
        sent_frames=reading.source.frames,
        socket_drops=run.socket_drops,
        on_schedule=_on_schedule(trial, reading),
        stretch=_stretch(trial, reading),
        passed_frames=2 * reading.answered,
        cpu=[run.cpu()],
    )
