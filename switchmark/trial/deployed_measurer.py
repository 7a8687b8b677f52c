"""A measurer on a running deployment: it runs one trial after the other without a new setup.

The applications stay (`--session`); every trial is a `start` with its own rate and duration.
Loss comes from sequence numbers over the whole trial, so a frame in flight at its end does not
count as lost. The forwarded rate comes from the receivers' intervals while every sender was
sending. A load is the total over all pairs, and is divided exactly between them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from switchmark.engine import loads
from switchmark.engine.loads import NO_FRAMES, forwarded_pps, sending_half, sum_of
from switchmark.engine.process import EngineProcess
from switchmark.formatting import amount
from switchmark.host.cores.cpu_limit import PERIOD_US
from switchmark.host.cores.cpu_time import ThreadTimes, softirq_threads_s
from switchmark.host.cores.throttling import OwnThrottling
from switchmark.method.support.measurer import LoadPoint
from switchmark.model.rates import CONSTANT
from switchmark.model.trial import Trial
from switchmark.record import Latency, MethodTrial
from switchmark.trial.bursts import burst_pps
from switchmark.trial.cost import ApplicationCpu
from switchmark.trial.one_way import Clocks, TimedRun, frame_times, lost_while_away, probe_times
from switchmark.trial.sender_absence import late_frames
from switchmark.trial.side_counts import SideCounts, as_trials
from switchmark.trial.throughput import common_time, socket_drops, stretch
from switchmark.trial.traffic import Tick, run_traffic
from switchmark.trial.trim import kept_intervals
from switchmark.trial.verification import PairEnds

INTERVALS_A_TRIAL = 10
SHORTEST_INTERVAL_S = 0.001
SHORTEST_JUDGED_S = 0.25  # in shorter trials the resolution of the sender decides the duration
# A frame that arrives later than this after the end of its trial was in a queue. Applications on
# one core wait some milliseconds for each other, so the time cannot be shorter. A load that counts
# as carried may be too high by the same share of its trial.
RESIDUAL_S = 0.01
RESIDUAL_SHARE = 0.0025  # share of the trial
STALL_WORTH_NAMING = 0.01  # share of the time in which a switch was kept from its core
KERNEL_DRIVERS = ("net_af_packet", "net_af_xdp", "net_tap")  # DPDK's, for devices of the kernel
MIN_INTERVALS = 3  # with fewer inside the trial, the rate is that of the whole trial


class DeployedMeasurer:
    """A `Measurer` on applications that are ready and verified. `points` and `side_counts` have
    one entry for each trial, in order."""

    def __init__(
        self,
        trial: Trial,
        ends: Sequence[PairEnds],
        tick: Tick,
        clocks: Clocks | None = None,
        switch_pids: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        self.points: list[LoadPoint] = []
        self.side_counts: list[SideCounts] = []
        self.source_counters = NO_FRAMES
        self.sink_counters = NO_FRAMES
        self.stretch = 0.0  # largest share of its duration by which a trial lasted too long
        self.cpu: list[ApplicationCpu] = []  # for every result on this host
        self.far_cpu: list[ApplicationCpu] = []  # the same for the remote host
        self._sample_s: float | None = None  # sample length of the current trial
        self._trial = trial
        self._ends = list(ends)
        self._senders = [pair.a for pair in ends]
        self._receivers = [pair.b for pair in ends]
        self._tick = tick
        self._switch_pids = switch_pids  # empty for a switch in the kernel
        self._clocks = clocks  # None if both ends are on one host

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Run one trial at this total load; see `Measurer.measure`."""
        return self._run(duration_s, load_pps, {}, {})

    def measure_latency(
        self, duration_s: float, load_pps: float, burst: int
    ) -> tuple[LoadPoint, Latency]:
        """Run one trial that times the way from sender to receiver: of every frame or, if the
        trial has a probe rate, of the probes beside the load.

        Sender and receiver share the clock of one host, or the clocks of their hosts are compared.
        Both directions of bidirectional traffic are timed at once, and reported together and
        separately. Raises `TrialFailed` if no frame arrived, or none in one direction."""
        timed = TimedRun(self._clocks, self._ends, duration_s) if self._clocks else None
        if self._trial.probe_rate_pps is not None:
            beside = {"burst": burst, "probe-rate": self._trial.probe_rate_pps}
            point = self._run(duration_s, load_pps, beside, {"probes": 1})
            return point, probe_times(self._ends, timed)
        point = self._run(duration_s, load_pps, {"burst": burst}, {"latency": 1})
        return point, frame_times(self._ends, timed)

    def trials(self) -> list[MethodTrial]:
        """Return every trial so far, as the record has it."""
        return as_trials(self.points, self.side_counts)

    def contradictions(self) -> list[str]:
        """Return a line for each contradiction between the applications' counters so far."""
        return [
            line for pair in self._ends for line in (*pair.a.contradictions, *pair.b.contradictions)
        ]

    def notes(self) -> list[str]:
        """Return notes on the trials: duplicates, reordering, drops of the receivers."""
        counts = {
            "duplicated": sum(one.duplicates for one in self.side_counts),
            "reordered": sum(one.reordered for one in self.side_counts),
            "lost while a receiver was away from its core (left out)": sum(
                one.lost_away for one in self.points
            ),
            "not sent, since a sender was descheduled (left out)": sum(
                one.late_frames for one in self.points
            ),
            "still queued when their trial was over (not carried)": sum(
                one.queued_frames for one in self.points
            ),
            "dropped at the receivers' own sockets": sum(
                one.socket_drops for one in self.side_counts
            ),
            "stragglers of an earlier trial (left out)": sum(one.stale for one in self.side_counts),
        }
        notes = [
            f"{count} {'frame was' if count == 1 else 'frames were'} {text}"
            for text, count in counts.items()
            if count
        ]
        restless = sum(not one.drained for one in self.side_counts)
        stalled_s = math.fsum(one.stalled_s for one in self.points)
        if stalled_s > STALL_WORTH_NAMING * math.fsum(one.duration_s for one in self.points):
            notes.append(
                f"the switch was kept from its core for {amount(stalled_s, 's')} in total: frames "
                "that were due then and were refused are left out"
            )
        if restless:
            notes.append(f"in {restless} trials frames still arrived when the receiver was stopped")
        return notes

    def _run(
        self,
        duration_s: float,
        load_pps: float,
        source_options: Mapping[str, str | float],
        sink_options: Mapping[str, str | float],
        *,
        tick: Tick | None = None,
        interval_s: float | None = None,
    ) -> LoadPoint:
        begun = time.monotonic()
        usual_s = min(self._trial.interval_s, duration_s / INTERVALS_A_TRIAL)
        self._sample_s = max(SHORTEST_INTERVAL_S, interval_s or usual_s)
        every = {"interval": f"{self._sample_s:.6f}"}
        before, softirq_before_s = ThreadTimes.of(self._switch_pids()), softirq_threads_s()
        quota_before = OwnThrottling.read()
        run_traffic(
            self._senders,
            self._receivers,
            duration_s,
            tick or self._tick,
            source_options=[
                {**every, **self._schedule(load_pps), **source_options, "rate": rate}
                for rate in rates_of(load_pps, len(self._ends))
            ],
            sink_options={**every, **sink_options},
        )
        waited_s = before.kept_waiting_s(ThreadTimes.of(self._switch_pids()))
        throttled_s = OwnThrottling.read().since(quota_before).seconds
        stalled_s = max(0.0, waited_s - throttled_s)  # a CPU quota is not an excuse
        softirq_s = self._softirq_threads_s(softirq_before_s)
        late = late_frames(self._senders, self._receivers, softirq_s, throttled_s)
        return self._keep(
            self._point(duration_s, load_pps, time.monotonic() - begun, stalled_s, late)
        )

    def _softirq_threads_s(self, before_s: float | None) -> float | None:
        """Return the seconds that the kernel's softirq threads ran since `before_s`. None if the
        threads cannot be observed (remote host, process namespace) although they forward frames:
        for a switch in the kernel and, on this host, for ports that are kernel devices."""
        after_s = softirq_threads_s()
        is_far = any(one.far for one in self._senders)
        if before_s is not None and after_s is not None and not is_far:
            return after_s - before_s
        if not self._switch_pids() or (not is_far and any(map(_is_of_kernel, self._senders))):
            return None
        return 0.0

    def _keep(self, point: LoadPoint, *, receivers_go_on: bool = False) -> LoadPoint:
        """Store a finished trial. While receivers go on, their samples belong to the next trial."""
        senders, receivers = self._senders, [] if receivers_go_on else self._receivers
        self.points.append(replace(point, samples_pps=()))  # a soak of hours has many samples
        self.side_counts.append(self._side_counts(receivers))
        if point.duration_s >= SHORTEST_JUDGED_S:
            self.stretch = max(self.stretch, stretch(senders, point.duration_s))
        for engine in {id(one): one for one in (*senders, *receivers)}.values():
            if engine.has_result:
                (self.far_cpu if engine.far else self.cpu).append(ApplicationCpu.of(engine))
        sent = sum_of(s for one in senders for s in one.intervals)
        if senders[0] in receivers:
            sent = sending_half(sent)
        self.source_counters = sum_of([self.source_counters, sent])
        received = (s for one in receivers for s in one.intervals)
        self.sink_counters = sum_of([self.sink_counters, *received])
        return point

    def _schedule(self, load_pps: float) -> dict[str, str]:
        """Return the option for the trial's schedule; a saturating load has none."""
        shaped = self._trial.schedule != CONSTANT and not math.isinf(load_pps)
        return {"schedule": self._trial.schedule} if shaped else {}

    def _point(
        self,
        duration_s: float,
        load_pps: float,
        elapsed_s: float,
        stalled_s: float = 0.0,
        late: int = 0,
    ) -> LoadPoint:
        each = [
            loads.load(f"pair {pair.a.pair}", pair.a.result, pair.b.result) for pair in self._ends
        ]
        whole = loads.total(each)
        forwarded, samples = self._forwarded(whole.unique_frames)
        lost_away = lost_while_away(self._ends, whole.lost_frames)
        return LoadPoint(
            intended_pps=None if math.isinf(load_pps) else float(_whole(load_pps, len(each))),
            offered_pps=whole.offered_pps,
            forwarded_pps=forwarded,
            offered_frames=whole.offered_frames,
            lost_frames=whole.lost_frames - lost_away,
            lost_away=lost_away,
            late_frames=late,
            queued_frames=self._queued(duration_s, stalled_s),
            stalled_s=min(stalled_s, duration_s),
            duration_s=duration_s,
            intended_frames=whole.intended_frames,
            elapsed_s=elapsed_s,
            ring_full_share=self._ring_full_share(),
            samples_pps=samples,
            sample_s=self._sample_s,
            burst_pps=burst_pps(self._trial, 1e9 * duration_s, len(each)),
        )

    def _queued(self, duration_s: float, stalled_s: float) -> int:
        """Return the number of frames that arrived so late after their trial that a queue must have
        grown in it."""
        patience = max(one.patience for one in self._receivers)
        allowed_s = patience * max(RESIDUAL_S, RESIDUAL_SHARE * duration_s) + stalled_s
        if self._trial.cpu_limit is not None:  # the switch gets new CPU time in each period
            allowed_s += PERIOD_US / 1e6
        each = [one.result.residual for one in self._receivers]
        return sum(one.frames for one in each if one and one.within_ns > 1e9 * allowed_s)

    def _ring_full_share(self) -> float | None:
        """The share of all senders' transmit calls that met a full ring."""
        sent = [one.result.totals for one in self._senders]
        polls = sum(one.tx_polls for one in sent)
        return sum(one.ring_full_polls for one in sent) / polls if polls else None

    def _forwarded(self, unique: int) -> tuple[float, tuple[float, ...]]:
        """The forwarded rate and its samples, from the intervals in which all were sending."""
        window = common_time(self._senders)
        by_receiver = [list(kept_intervals(one.intervals, window)) for one in self._receivers]
        if min(map(len, by_receiver)) < MIN_INTERVALS:
            return loads.frame_rate(unique, window[1] - window[0]), ()
        rates = [[forwarded_pps([sample]) for sample in samples] for samples in by_receiver]
        return (
            math.fsum(forwarded_pps(samples) for samples in by_receiver),
            tuple(math.fsum(column) for column in zip(*rates, strict=False)),
        )

    def _side_counts(self, receivers: Sequence[EngineProcess]) -> SideCounts:
        results = [one.result for one in receivers]
        losses = [loads.loss_of(one) for one in results]
        pacings = [p for one in self._senders if (p := one.result.pacing)]
        return SideCounts(
            socket_drops=socket_drops(receivers),
            duplicates=sum(one.duplicates for one in losses),
            reordered=sum(one.reordered for one in losses),
            corrupt=sum(one.totals.rx_corrupt for one in results),
            stale=sum(one.totals.rx_stale for one in results),
            drained=all(bool(one.drained) for one in results),
            late_max_ns=max((pacing.late_max_ns for pacing in pacings), default=None),
        )


def rates_of(load_pps: float, pairs: int) -> list[str | int]:
    """Return the rate of each pair for the engine: whole frames per second that sum to the load."""
    if math.isinf(load_pps):
        return ["max"] * pairs
    whole, rest = divmod(_whole(load_pps, pairs), pairs)
    return [whole + (index < rest) for index in range(pairs)]


def _whole(load_pps: float, pairs: int) -> int:
    """Return the load in whole frames per second; each pair sends at least one frame a second."""
    return max(pairs, round(load_pps))


def _is_of_kernel(engine: EngineProcess) -> bool:
    """Return True if a port of an application is a device of the kernel, whose frames softirqs
    handle."""
    return any(
        port.backend != "dpdk" or port.driver in KERNEL_DRIVERS for port in engine.ready.ports
    )
