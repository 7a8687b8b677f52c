"""A measurer that also disturbs: it lowers the load in mid-trial, or acts on the switch meanwhile.

Its samples are short, because they time an outage.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from switchmark.engine import loads
from switchmark.engine.loads import loss_of
from switchmark.engine.process import EngineProcess
from switchmark.errors import TrialFailed
from switchmark.method.support.disturbance import Disturbance, StepDown
from switchmark.method.support.measurer import LoadPoint
from switchmark.method.support.outage import Sample, Span, last_loss, longest_silence
from switchmark.trial.deployed_measurer import SHORTEST_INTERVAL_S, DeployedMeasurer, rates_of
from switchmark.trial.throughput import common_time
from switchmark.trial.traffic import run_traffic, stop_all
from switchmark.trial.trim import kept_intervals

SAMPLES_A_TRIAL = 1000
LONGEST_SAMPLE_S = 0.01
SHORTEST_END_NS = 100_000_000  # end of a trial, in which frames must arrive again
BURSTS_BETWEEN_CLOCKS = 2
DONE = object()  # returned after the last step of an action


class DisturbedMeasurer(DeployedMeasurer):
    """A `DeployedMeasurer` for recovery and reconfiguration."""

    def disturb(
        self,
        duration_s: float,
        load_pps: float,
        at_s: float,
        action: Callable[[], Iterator[None] | None],
        tail_s: float,
    ) -> Disturbance:
        """Run one trial at this load; see `Disturber.disturb`."""
        due = time.monotonic() + at_s
        took: list[float] = []
        steps: Iterator[object] | None = None
        begun = end = math.inf

        def tick() -> None:
            nonlocal begun, end, steps
            self._tick()
            if not took and time.monotonic() >= due:
                if steps is None:
                    begun = time.monotonic()
                    steps = action() or iter(())
                if next(steps, DONE) is DONE:
                    took.append(time.monotonic() - begun)
                    end = time.monotonic() + tail_s
            if time.monotonic() >= end:
                end = math.inf
                for sender in self._senders:
                    sender.request_stop()

        interval_s = _sample_s(at_s + tail_s)
        point = self._run(duration_s, load_pps, {}, {}, tick=tick, interval_s=interval_s)
        # The action ended the trial early, so its real duration counts.
        lasted_ns = max(one.result.duration_ns for one in self._senders)
        point = self.points[-1] = replace(point, duration_s=lasted_ns / 1e9)
        if not took:
            raise TrialFailed(f"the trial of {duration_s:g} s ended before the disturbance began")
        own_drops = self.side_counts[-1].socket_drops  # at the receivers' sockets: not the switch's
        silences = [longest_silence(self._while_sending(one)) for one in self._receivers]
        return Disturbance(
            point=point,
            missing_frames=max(0, point.unoffered_frames + point.lost_frames - own_drops),
            silence=max(silences, key=lambda one: one.seconds),
            action_s=took[0],
            resumed=all(map(self._flows_at_end, self._receivers)),
        )

    def step_down(
        self, first_s: float, first_pps: float, second_s: float, second_pps: float
    ) -> StepDown:
        """Overload, then offer the lower load at once, while the receivers go on. For them it is
        one trial, in which frames of the second load count and those of the first are stale."""
        senders, receivers = self._senders, self._receivers
        if any(sender is receiver for sender in senders for receiver in receivers):
            raise TrialFailed(
                "an overload needs senders that do not receive", remedy="use one direction"
            )
        every = {"interval": f"{_sample_s(second_s):.6f}"}
        begun = time.monotonic()

        def options(load_pps: float) -> list[dict[str, str | float]]:
            schedule = self._schedule(load_pps)
            return [
                {**every, **schedule, "rate": rate} for rate in rates_of(load_pps, len(senders))
            ]

        for receiver in receivers:
            receiver.start(duration=0, **every)
        tick = self._pumped(receivers)
        run_traffic(senders, [], first_s, tick, source_options=options(first_pps))
        ended_ns = max(one.started_ns + one.result.duration_ns for one in senders)
        overload = self._sent(first_s, first_pps, time.monotonic() - begun)
        self._keep(overload, receivers_go_on=True)
        begun = time.monotonic()
        run_traffic(senders, [], second_s, tick, source_options=options(second_pps))
        stop_all(receivers, senders)
        after = self._point(second_s, second_pps, time.monotonic() - begun)
        self._keep(after)
        gap_s = max(0.0, (min(one.started_ns for one in senders) - ended_ns) / 1e9)
        losses = [loss for pair in self._ends if (loss := self._last_loss(pair.a, pair.b))]
        return StepDown(
            overload=overload,
            after=after,
            gap_s=gap_s,
            last_loss=max(losses, key=lambda one: one.seconds, default=None),
        )

    def _pumped(self, receivers: Sequence[EngineProcess]) -> Callable[[], None]:
        def tick() -> None:
            for receiver in receivers:
                receiver.pump(0)
            self._tick()

        return tick

    def _sent(self, duration_s: float, load_pps: float, elapsed_s: float) -> LoadPoint:
        """Return the overload by the senders' counts and the receivers' samples so far. Frames in
        flight at its end count as lost, since the trial did not wait for them."""
        whole = loads.total(
            [loads.load_so_far(pair.a.result, pair.b.intervals) for pair in self._ends]
        )
        duration_ns = max(one.result.duration_ns for one in self._senders)
        return LoadPoint(
            intended_pps=load_pps,
            offered_pps=whole.offered_pps,
            forwarded_pps=loads.frame_rate(whole.unique_frames, duration_ns),
            offered_frames=whole.offered_frames,
            lost_frames=whole.lost_frames,
            duration_s=duration_s,
            intended_frames=whole.intended_frames,
            elapsed_s=elapsed_s,
            ring_full_share=self._ring_full_share(),
        )

    def _last_loss(self, sender: EngineProcess, receiver: EngineProcess) -> Span | None:
        unique = loss_of(receiver.result).received_unique
        sent = [Sample(one.t_ns, one.duration_ns, one.tx_offered) for one in sender.intervals]
        if not sent:
            raise TrialFailed(f"the {sender.role} in {sender.node} gave no samples")
        arrived = _arrivals(receiver)
        return last_loss(sent, arrived, unique, BURSTS_BETWEEN_CLOCKS * self._trial.burst)

    def _while_sending(self, receiver: EngineProcess) -> list[Sample]:
        return list(kept_intervals(_arrivals(receiver), common_time(self._senders)))

    def _flows_at_end(self, receiver: EngineProcess) -> bool:
        """Return True if frames arrived in the last twentieth of the trial, or in the last tenth of
        a second of a short trial. A shorter time proves nothing, since the receiver may have been
        kept from its core."""
        samples = self._while_sending(receiver)
        if not samples:
            return False
        ended, lasted = samples[-1].t_ns, samples[-1].t_ns - samples[0].t_ns
        begin = ended - max(SHORTEST_END_NS, lasted // 20)
        return any(one.frames for one in samples if one.t_ns > begin)


def _sample_s(duration_s: float) -> float:
    return min(LONGEST_SAMPLE_S, max(SHORTEST_INTERVAL_S, duration_s / SAMPLES_A_TRIAL))


def _arrivals(engine: EngineProcess) -> list[Sample]:
    return [Sample(one.t_ns, one.duration_ns, one.rx_frames) for one in engine.intervals]
