"""Traffic in bursts: one burst more or less in a sample, or in the kept window, is not a change."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from switchmark.experiment.campaign import _is_load_met
from switchmark.record import Limit, Throughput
from switchmark.results.blocks import observe
from switchmark.results.query import read_table
from switchmark.results.remarks import remarks_of
from switchmark.results.summary import groups
from switchmark.statistics.outliers import strange_repetitions
from switchmark.statistics.steady_state import detect
from switchmark.statistics.two_bands import find_bands
from switchmark.trial.bursts import burst_noise_pps, burst_pps
from switchmark.trial.judge import verdict
from switchmark.trial.limit import limit
from switchmark.trial.throughput import steady_run
from tests.unit.histories import scaled
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.trial.test_judge import EVIDENCE, PASSED, figures_of
from tests.unit.trial_fakes import placement, trial

SAMPLE_NS = 80_000_000
SLOW = trial(rate_pps=1001, burst=32)
STEP = burst_pps(SLOW, SAMPLE_NS)  # 400 frames/s


def counted(
    rate_pps: float, count: int, *, burst: int = 32, jitter: float = 0.0, seed: int = 0
) -> list[float]:
    """The rates of samples of 80 ms of a perfectly paced sender. Each burst comes up to `jitter` of
    the distance between bursts later."""
    draw, distance_ns = random.Random(seed), burst * 1e9 / rate_pps
    ends = [SAMPLE_NS * k for k in range(count + 1)]
    number = math.ceil(ends[-1] / distance_ns) + 1
    begin_ns = draw.random() * distance_ns
    arrivals = [begin_ns + distance_ns * (k + jitter * draw.random()) for k in range(number)]
    return [
        sum(a <= at < b for at in arrivals) * burst * 1e9 / SAMPLE_NS for a, b in pairwise(ends)
    ]


@pytest.mark.parametrize("jitter", [0.0, 0.9])
@pytest.mark.parametrize("rate_pps", [450, 1001, 2503, 7000])
def test_paced_bursts_are_steady(rate_pps: float, jitter: float) -> None:
    """At each low rate and phase a perfect path is neither in bands nor changing nor unsteady."""
    for seed in range(20):
        samples = counted(rate_pps, 24, jitter=jitter, seed=seed)
        found = detect(samples, STEP)
        assert found.steady and not found.outliers, samples
        slow = trial(rate_pps=rate_pps, burst=32)
        noise = burst_noise_pps(slow, SAMPLE_NS, rate_pps, 1)
        assert statistics.stdev(samples) <= noise * math.sqrt(24 / 23)


def test_paced_bursts_were_called_two_bands() -> None:
    """Without the step, two or three bursts a sample are two bands: the test is not idle."""
    samples = [800.0, 1200.0] * 12
    assert find_bands(samples) is not None
    assert find_bands(samples, STEP) is None
    assert steady_run(samples, STEP).two_bands is None


def test_bands_further_apart_than_bursts_are_found() -> None:
    samples = [800.0, 1200.0, 800.0, 2800.0, 3200.0, 2800.0] * 4
    assert find_bands(samples, STEP) is not None
    assert not detect(samples, STEP).steady
    halved = counted(4000, 15) + counted(1000, 15)
    assert detect(halved, STEP).bands is not None


def test_rare_bursts_are_not_outliers() -> None:
    samples = [400.0] * 20 + [800.0] + [400.0] * 5
    assert detect(samples).outliers and not detect(samples, STEP).outliers
    assert detect([*samples, 4000.0], STEP).outliers


def test_repetitions_that_differ_by_bursts_are_not_strange(tmp_path: Path) -> None:
    values = [941.0, 941.0, 1129.0, 1129.0, 941.0, 1129.0, 1129.0, 941.0]
    assert strange_repetitions(values, range(8), str)
    assert not strange_repetitions(values, range(8), str, step=188.0)
    records = []
    for repetition, rate_pps in enumerate(values):
        record = scaled(synthetic_record(synthetic_trial(repetition=repetition)), rate_pps)
        assert record.throughput is not None
        loads = record.throughput.model_copy(update={"burst_pps": 188.0})
        records.append(record.model_copy(update={"throughput": loads}))
    [[group]] = groups(read_table(write_run(tmp_path, records)).frame)
    assert not [one for one in remarks_of(group.finished) if "repetition" in one or "band" in one]


@pytest.mark.parametrize(
    ("samples_stdev", "noise", "is_unstable"),
    [(204.0, 400.0, False), (204.0, 0.0, True), (450.0, 400.0, True)],
)
def test_unstable_leaves_out_what_bursts_make(
    samples_stdev: float, noise: float, is_unstable: bool
) -> None:
    found = verdict(
        SLOW, Limit(factor="rate", evidence=["x"]),
        figures_of(1000.0, forwarded_stdev_pps=samples_stdev),
        replace(EVIDENCE, sample_noise_pps=noise), placement(), PASSED, mixed_connect_modes=False,
    )  # fmt: skip
    assert ("unstable" in found.marks) is is_unstable


def test_poisson_bursts_may_vary_by_the_root_of_their_number() -> None:
    random_bursts = trial(rate_pps=10_000, burst=32, schedule="poisson")
    draw = random.Random(1)
    distance_ns = 32e9 / 10_000
    arrivals, at = [], 0.0
    while at < 500 * SAMPLE_NS:
        at += draw.expovariate(1 / distance_ns)
        arrivals.append(at)
    counts = [0] * 501
    for at in arrivals:
        counts[int(at // SAMPLE_NS)] += 1
    measured = statistics.stdev(32e9 / SAMPLE_NS * one for one in counts[:500])
    assert measured < burst_noise_pps(random_bursts, SAMPLE_NS, 10_000, 1) < 2 * measured


def test_steps_of_machine_states_are_not_read_from_few_bursts() -> None:
    record = synthetic_record(synthetic_trial(rate_pps=1000))
    loads = record.throughput
    assert loads is not None
    fine = record.model_copy(update={"throughput": loads.model_copy(update={"burst_pps": 0.0})})
    coarse = record.model_copy(
        update={"throughput": loads.model_copy(update={"burst_pps": loads.forwarded_pps / 10})}
    )
    assert observe(fine).samples and not observe(coarse).samples


@pytest.mark.parametrize(
    ("forwarded", "loss", "burst", "expected"),
    [
        (941.0, 0.0, 188.0, "rate"),  # one burst of 32 is missing in a window of 0.17 s
        (941.0, 0.0, 0.0, "generator"),
        (700.0, 0.0, 188.0, "generator"),
        (1000.0, 0.0157, 188.0, "generator"),  # all of the window's, but not of the trial's
        (1000.0, 0.004, 188.0, "rate"),
    ],
)
def test_load_is_met_within_one_burst_and_without_loss(
    forwarded: float, loss: float, burst: float, expected: str
) -> None:
    loads = figures_of(
        forwarded, offered_pps=forwarded, intended_pps=1000.0, loss_ratio=loss, burst_pps=burst
    )
    found = limit(trial(switch="direct", rate_pps=1000), loads, replace(EVIDENCE, socket_drops=0))
    assert found.factor == expected
    assert isinstance(loads.throughput, Throughput)
    record = synthetic_record(synthetic_trial(switch="direct"))
    assert _is_load_met(record.model_copy(update={"throughput": loads.throughput})) is (
        expected == "rate"
    )
