"""A simulated switch: a capacity with the faults of real ones, and its own clock.

It tests methods against a known capacity, with thousands of runs a minute. Its results must never
appear beside real results. Each fault is one number, so that a test can state the faults that a
method tolerates.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

from switchmark.method.support.measurer import LoadPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The faults of the simulated switch. Ratios are relative to `capacity_pps`."""

    capacity_pps: float
    trial_noise: float = 0.0  # standard deviation of the capacity between trials
    sample_noise: float = 0.0  # standard deviation of the capacity between intervals
    rare_losses_per_s: float = 0.0  # loss events (Poisson), independent of the load
    rare_loss_frames: int = 10  # frames that one event loses
    second_band: float | None = None  # capacity ratio of the other band, e.g. 0.9
    second_band_share: float = 0.5  # long-run share of trials in that band
    band_stay: float = 0.0  # correlation of the band between trials, 0 to 1
    drift_per_hour: float = 0.0  # growth of capacity with time (negative: decay)
    warm_up_s: float = 0.0  # time constant with which the capacity reaches its value
    warm_up_depth: float = 0.5  # share of the capacity that is missing at the start
    overload_decline: float = 0.0  # forwarded ratio lost per unit of relative overload
    buffer_frames: int = 0  # frames that the buffer holds before any are lost
    residual_s: float = 0.01  # frames that arrive later after the end of a trial were queued
    back_pressure: bool = False  # refuses frames that it cannot carry, instead of losing them
    sender_ceiling_pps: float = math.inf  # limit of the generator
    overhead_s: float = 0.0  # wall time of a trial beyond its duration
    samples: int = 10  # intervals in a trial


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
        """Return the load at which half of all warmed-up trials lose more than `loss_ratio`.

        It is exact for trial noise and an overload without decline. With a second band, drift, or
        noise inside a trial, there is no single true value."""
        return self.behaviour.capacity_pps / (1 - loss_ratio)

    def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
        """Run one trial in simulated time."""
        behaviour = self.behaviour
        trial_factor = self._trial_factor()
        part_s = duration_s / behaviour.samples
        sent_pps = min(load_pps, behaviour.sender_ceiling_pps)
        if math.isinf(sent_pps):
            sent_pps = 2 * behaviour.capacity_pps
        offered = forwarded = backlog = 0.0
        samples = []
        for index in range(behaviour.samples):
            room = self._capacity_pps(self.now_s + (index + 0.5) * part_s) * trial_factor * part_s
            arriving = sent_pps * part_s
            if behaviour.back_pressure:
                arriving = min(arriving, room)
            # Frames beyond the capacity wait in the buffer; frames beyond the buffer are lost.
            carried = self._carried(arriving + backlog, room)
            backlog = min(float(behaviour.buffer_frames), arriving + backlog - carried)
            offered += arriving
            forwarded += carried
            samples.append(carried / part_s)
        offered_frames = round(offered)
        lost = max(0, offered_frames - round(forwarded + backlog)) + self._rare_loss(duration_s)
        lost = min(lost, offered_frames)
        self.now_s += duration_s + behaviour.overhead_s
        return LoadPoint(
            intended_pps=None if math.isinf(load_pps) else load_pps,
            offered_pps=offered_frames / duration_s,
            forwarded_pps=(offered_frames - lost) / duration_s,
            offered_frames=offered_frames,
            lost_frames=lost,
            queued_frames=round(backlog)
            if backlog > behaviour.capacity_pps * behaviour.residual_s
            else 0,
            duration_s=duration_s,
            intended_frames=None if math.isinf(load_pps) else round(load_pps * duration_s),
            elapsed_s=duration_s + behaviour.overhead_s,
            ring_full_share=0.5
            if behaviour.back_pressure and offered < sent_pps * duration_s
            else 0.0,
            samples_pps=tuple(samples),
        )

    def _carried(self, arriving: float, room: float) -> float:
        if arriving <= room:
            return arriving
        return room * max(0.0, 1 - self.behaviour.overload_decline * (arriving / room - 1))

    def _capacity_pps(self, at_s: float) -> float:
        behaviour = self.behaviour
        capacity = behaviour.capacity_pps * (1 + behaviour.drift_per_hour * at_s / 3600)
        if behaviour.warm_up_s:
            capacity *= 1 - behaviour.warm_up_depth * math.exp(-at_s / behaviour.warm_up_s)
        if behaviour.sample_noise:
            capacity *= 1 + self._random.gauss(0, behaviour.sample_noise)
        return max(1.0, capacity)

    def _trial_factor(self) -> float:
        behaviour = self.behaviour
        factor = 1 + self._random.gauss(0, behaviour.trial_noise) if behaviour.trial_noise else 1.0
        if behaviour.second_band is not None:
            stays = self._in_second_band is not None and self._random.random() < behaviour.band_stay
            if not stays:
                self._in_second_band = self._random.random() < behaviour.second_band_share
            if self._in_second_band:
                factor *= behaviour.second_band
        return max(0.01, factor)

    def _rare_loss(self, duration_s: float) -> int:
        mean = self.behaviour.rare_losses_per_s * duration_s
        return int(self._losses.poisson(mean)) * self.behaviour.rare_loss_frames
