"""Round-trip time: a client sends paced requests, a server echoes them.

There are two runs on one deployment: a warm-up whose samples are all discarded, then the
measurement, in which every sample counts. Times are given from the actual send time and from the
*intended* send time, so that a client that fell behind cannot hide it (coordinated omission).
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.engine import loads
from switchmark.engine.loads import NO_FRAMES, loss_of, sum_of
from switchmark.engine.process import EngineProcess
from switchmark.model.campaign import TrimPolicy
from switchmark.model.trial import Trial
from switchmark.record import Figures, Latency, Trim
from switchmark.trial.beside import load_beside, probe_load, probes_of
from switchmark.trial.one_way import (
    Clocks,
    TimedRun,
    frame_times,
    merge_latency,
    probe_times,
    timed_by,
)
from switchmark.trial.recording import Measurement
from switchmark.trial.throughput import on_schedule, socket_drops, stretch
from switchmark.trial.traffic import Tick, run_traffic, sent_frames
from switchmark.trial.verification import PairEnds


def warm_up(pairs: Sequence[PairEnds], policy: TrimPolicy, tick: Tick) -> None:
    """Run the requests for the warm-up time, and discard the samples."""
    if policy.warm_up_s > 0:
        run_traffic([pair.a for pair in pairs], [pair.b for pair in pairs], policy.warm_up_s, tick)


def measure(
    trial: Trial,
    pairs: Sequence[PairEnds],
    policy: TrimPolicy,
    tick: Tick,
    clocks: Clocks | None = None,
) -> Measurement:
    """Run one latency trial on applications that are ready, verified and warmed up. With the clocks
    of two hosts, the one-way time to the server is also measured."""
    clients = [pair.a for pair in pairs]
    servers = [pair.b for pair in pairs]
    way_there = frame_times if trial.probe_rate_pps is None else probe_times
    timed = TimedRun(clocks, pairs, trial.duration_s) if clocks else None
    sink_options = {"latency": 1} if timed else {}
    run_traffic(clients, servers, trial.duration_s, tick, sink_options=sink_options)
    samples = [s for client in clients for s in client.intervals]
    ended_ns = max(s.t_ns for s in samples) if samples else 0
    started_ns = min(client.started_ns for client in clients)
    return Measurement(
        figures=Figures(
            latency=_merge(clients)
            if trial.probe_rate_pps is None
            else _merge_probes(trial, pairs),
            one_way=way_there(pairs, timed) if timed else None,
        ),
        trim=Trim(
            policy=f"separate warm-up run of {policy.warm_up_s:g} s, its samples left out; "
            "every later sample kept",
            kept_from_ns=started_ns,
            kept_to_ns=ended_ns,
            samples_kept=len(samples),
            samples_dropped=0,
        ),
        kept_samples=min(len(client.intervals) for client in clients),
        source_counters=sum_of(samples),
        sink_counters=NO_FRAMES,
        sent_frames=sent_frames(clients),
        socket_drops=socket_drops([*clients, *servers]),
        stretch=stretch(clients, trial.duration_s),
        passed_frames=_passed_frames(trial, pairs),
        on_schedule=on_schedule(clients),
    )


def _passed_frames(trial: Trial, pairs: Sequence[PairEnds]) -> int:
    """Return the frames that passed the switch: an answered request or probe passes twice, a frame
    of the untimed load once."""
    if trial.probe_rate_pps is None:
        return 2 * sum(loss_of(pair.a.result).received_unique for pair in pairs)
    probes = probes_of(pair.a for pair in pairs)
    answered = sum(loss_of(one).received_unique for one in probes)
    return sum(loss_of(pair.b.result).received_unique for pair in pairs) + 2 * answered


def _merge_probes(trial: Trial, pairs: Sequence[PairEnds]) -> Latency:
    """Return the delays of the probes alone, with the load that ran beside them."""
    probes = probes_of(pair.a for pair in pairs)
    lost = probe_load(probes, probes).lost_frames
    merged = merge_latency("rtt", timed_by(probes), lost, "no probe was answered")
    return merged.model_copy(update={"beside": load_beside(trial, pairs)})


def _merge(clients: Sequence[EngineProcess]) -> Latency:
    """Return the delays of the answers to all requests."""
    results = [client.result for client in clients]
    each = [loads.load("the answers", one, one) for one in results]
    lost = loads.total(each).lost_frames
    return merge_latency("rtt", timed_by(results), lost, "no request was answered")
