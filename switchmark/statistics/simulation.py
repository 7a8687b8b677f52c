"""A simulated machine with two states, to test designs and statistics before they are used.

The host sometimes moves the virtual cores, and then all rates change by a factor. Every trial adds
an error of its deployment and correlated errors of its slices. Rates may drift, and some trials
have the label of the wrong state. The true values are known, so coverage and false claims can be
counted. Every function takes its random numbers from the given generator, so a seed repeats a
campaign."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmark.statistics.blocks import BlockTrial

Array = NDArray[np.floating[Any]]
LINE_READING_S = 0.005  # from the reading of a cache line to the trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The disturbances of the simulated machine. Deviations are those of logarithms: 0.03 is 3
    %."""

    slowdown: float = 2.0  # factor between the states; 1: one state only
    dwell_s: float = 6.0  # mean time in either state
    deployment_sd: float = 0.03
    slice_sd: float = 0.05
    slice_s: float = 0.1
    slice_correlation: float = 0.5  # correlation of a slice with the previous slice
    drift_per_minute: float = 0.0  # change of ln(rate)
    wrong_labels: float = 0.0  # share of trials with line times of the other state
    fast_line_ns: float = 26.0
    slow_line_ns: float = 148.0
    line_sd: float = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The division of the time of a campaign."""

    trial_s: float = 0.5
    overhead_s: float = 0.3  # time around a trial, which is not measured
    blocks_per_deployment: int = 1  # more than 1: contenders stay deployed and take turns


def blocks(
    machine: Machine,
    design: Design,
    rates: Mapping[str, float | tuple[float, float]],
    count: int,
    generator: np.random.Generator,
) -> list[BlockTrial]:
    """Simulate `count` blocks of all contenders in random order.

    `rates` has each contender's figure in the fast state, or in the fast and the slow state; the
    default of the latter is the former divided by `slowdown`."""
    names = list(rates)
    turn_s = design.trial_s + design.overhead_s
    order = np.concatenate([generator.permutation(len(names)) for _ in range(count)])
    starts = np.arange(order.size) * turn_s
    edges = _state_edges(machine, order.size * turn_s + 1.0, generator)
    fast, slow = _rates_by_state(machine, rates)
    deployed = np.arange(order.size) // (len(names) * design.blocks_per_deployment)
    errors = generator.normal(0, machine.deployment_sd, (deployed[-1] + 1, len(names)))
    samples = _samples(machine, design, edges, starts, (fast[order], slow[order]), generator)
    samples *= np.exp(errors[deployed, order])[:, None]
    lines = _lines(machine, edges, starts, starts + design.trial_s, generator)
    return [
        BlockTrial(
            block=place // len(names),
            contender=names[order[place]],
            start_s=float(starts[place]),
            figure=float(samples[place].mean()),
            line_before_ns=float(lines[0, place]),
            line_after_ns=float(lines[1, place]),
            samples=tuple(samples[place].tolist()),
        )
        for place in range(order.size)
    ]


def _rates_by_state(
    machine: Machine, rates: Mapping[str, float | tuple[float, float]]
) -> tuple[Array, Array]:
    pairs = [
        rate if isinstance(rate, tuple) else (rate, rate / machine.slowdown)
        for rate in rates.values()
    ]
    fast, slow = np.asarray(pairs, float).T
    return fast, slow


def _state_edges(machine: Machine, duration_s: float, generator: np.random.Generator) -> Array:
    """Return the times at which the state changes; the machine is fast before those with even
    numbers. The first time is before 0 in half of the campaigns, so that either state may come
    first."""
    if machine.slowdown == 1:
        return np.asarray([duration_s * 2])
    expected = duration_s / machine.dwell_s
    dwells = generator.exponential(machine.dwell_s, int(expected + 8 * math.sqrt(expected) + 20))
    begins_far = generator.random() < 0.5
    return np.concatenate([[-1.0] if begins_far else [], np.cumsum(dwells)])


def _near_until(edges: Array, times: Array) -> Array:
    """Return the seconds in the fast state from 0 until each of `times`."""
    places = np.concatenate([[min(0.0, edges[0])], edges])
    is_near = np.arange(edges.size) % 2 == 0
    spent = np.concatenate([[0.0], np.cumsum(np.diff(places) * is_near)])
    return np.asarray(np.interp(times, places, spent))


def _samples(
    machine: Machine,
    design: Design,
    edges: Array,
    starts: Array,
    rates: tuple[Array, Array],
    generator: np.random.Generator,
) -> Array:
    """Return the slices of each trial, one row a trial; `rates` has the fast and the slow rates."""
    slices = max(1, round(design.trial_s / machine.slice_s))
    length = design.trial_s / slices
    times = starts[:, None] + np.arange(slices + 1) * length
    near_share = np.diff(_near_until(edges, times), axis=1) / length
    means = near_share * rates[0][:, None] + (1 - near_share) * rates[1][:, None]
    noise = generator.normal(0, machine.slice_sd, times[:, 1:].shape)
    keep = machine.slice_correlation
    for index in range(1, slices):
        noise[:, index] = keep * noise[:, index - 1] + math.sqrt(1 - keep**2) * noise[:, index]
    drift = machine.drift_per_minute / 60 * times[:, :1]
    return np.asarray(means * np.exp(noise + drift))


def _lines(
    machine: Machine, edges: Array, begins: Array, ends: Array, generator: np.random.Generator
) -> Array:
    """Return the times of a cache line before and after each trial, in ns."""
    times = np.stack([np.maximum(begins - LINE_READING_S, 0), ends + LINE_READING_S])
    is_slow = np.searchsorted(edges, times, side="right") % 2 == 1
    is_slow = is_slow ^ (generator.random(begins.size) < machine.wrong_labels)
    level = np.where(is_slow, machine.slow_line_ns, machine.fast_line_ns)
    return level * np.exp(generator.normal(0, machine.line_sd, times.shape))
