"""A simulated switch: a capacity with the faults of real ones, and its own clock.

It exists to test methods against a known truth, thousands of runs a minute; it measures nothing
real, and its results must never stand beside real ones. Each fault is one number, so that a test
can say which of them a method survives.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

from switchmark.method.support.measurer import LoadPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The simulated switch's faults. Ratios are relative to `capacity_pps`."""

    capacity_pps: float
    trial_noise: float = 0.0  # stdev of the capacity from trial to trial
    sample_noise: float = 0.0  # stdev of the capacity from interval to interval
    rare_losses_per_s: float = 0.0  # loss events (Poisson), whatever the load
    rare_loss_frames: int = 10  # frames that one event loses
    second_band: float | None = None  # capacity ratio of the other band, e.g. 0.9
    second_band_share: float = 0.5  # long-run share of trials in that band
    band_stay: float = 0.0  # correlation of the band from trial to trial, 0 to 1
    drift_per_hour: float = 0.0  # growth of capacity with time (negative: decay)
    warm_up_s: float = 0.0  # time constant with which the capacity reaches its value
    warm_up_depth: float = 0.5  # what it lacks at the start
    overload_decline: float = 0.0  # forwarded ratio lost per unit of relative overload
    buffer_frames: int = 0  # absorbed before anything is lost
    residual_s: float = 0.01  # after a trial; what comes later was queued
    back_pressure: bool = False  # refuses what it cannot carry instead of losing it
    sender_ceiling_pps: float = math.inf  # the traffic generator's own limit
    overhead_s: float = 0.0  # wall time a trial costs beyond its duration
    samples: int = 10  # intervals a trial


class SimulatedSwitch:
    """A `Measurer` without hardware. The same behaviour and seed give the same sequence of
    trials."""

    def __init__(self, behaviour: Behaviour, seed: int = 0) -> None:
        self.behaviour = behaviour
        self.now_s = 0.0
        self._random = random.Random(seed)
        self._losses = np.random.default_rng(seed)
        self._in_second_band: bool | None = None

    def true_capacity_pps(self, loss_ratio: float = 0.0) -> float:
        """The load at which half of all warmed-up trials lose more than `loss_ratio`.

        It is exact for trial noise and an overload without decline; with a second band, drift, or
        noise inside a trial there is no single truth: look at the bands instead."""
        return self.behaviour.capacity_pps / (1 - loss_ratio)

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Run one trial in simulated time."""
        how = self.behaviour
        trial_factor = self._trial_factor()
        part_s = duration_s / how.samples
        sent_pps = min(load_pps, how.sender_ceiling_pps)
        if math.isinf(sent_pps):
            sent_pps = 2 * how.capacity_pps
        offered = forwarded = backlog = 0.0
        samples = []
        for index in range(how.samples):
            room = self._capacity_pps(self.now_s + (index + 0.5) * part_s) * trial_factor * part_s
            arriving = sent_pps * part_s
            if how.back_pressure:
                arriving = min(arriving, room)
            # What does not fit waits in the buffer; what does not fit there is lost.
            carried = self._carried(arriving + backlog, room)
            backlog = min(float(how.buffer_frames), arriving + backlog - carried)
            offered += arriving
            forwarded += carried
            samples.append(carried / part_s)
        offered_frames = round(offered)
        lost = max(0, offered_frames - round(forwarded + backlog)) + self._rare_loss(duration_s)
        lost = min(lost, offered_frames)
        self.now_s += duration_s + how.overhead_s
        return LoadPoint(
            intended_pps=None if math.isinf(load_pps) else load_pps,
            offered_pps=offered_frames / duration_s,
            forwarded_pps=(offered_frames - lost) / duration_s,
            offered_frames=offered_frames,
            lost_frames=lost,
            queued_frames=round(backlog) if backlog > how.capacity_pps * how.residual_s else 0,
            duration_s=duration_s,
            intended_frames=None if math.isinf(load_pps) else round(load_pps * duration_s),
            elapsed_s=duration_s + how.overhead_s,
            ring_full_share=0.5 if how.back_pressure and offered < sent_pps * duration_s else 0.0,
            samples_pps=tuple(samples),
        )

    def _carried(self, arriving: float, room: float) -> float:
        if arriving <= room:
            return arriving
        return room * max(0.0, 1 - self.behaviour.overload_decline * (arriving / room - 1))

    def _capacity_pps(self, at_s: float) -> float:
        how = self.behaviour
        capacity = how.capacity_pps * (1 + how.drift_per_hour * at_s / 3600)
        if how.warm_up_s:
            capacity *= 1 - how.warm_up_depth * math.exp(-at_s / how.warm_up_s)
        if how.sample_noise:
            capacity *= 1 + self._random.gauss(0, how.sample_noise)
        return max(1.0, capacity)

    def _trial_factor(self) -> float:
        how = self.behaviour
        factor = 1 + self._random.gauss(0, how.trial_noise) if how.trial_noise else 1.0
        if how.second_band is not None:
            stays = self._in_second_band is not None and self._random.random() < how.band_stay
            if not stays:
                self._in_second_band = self._random.random() < how.second_band_share
            if self._in_second_band:
                factor *= how.second_band
        return max(0.01, factor)

    def _rare_loss(self, duration_s: float) -> int:
        mean = self.behaviour.rare_losses_per_s * duration_s
        return int(self._losses.poisson(mean)) * self.behaviour.rare_loss_frames
