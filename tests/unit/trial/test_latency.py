"""Round-trip times from scripted clients: warm-up apart, several pairs merged, nothing lost."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.errors import TrialFailed
from switchmark.model.campaign import TrimPolicy
from switchmark.trial import latency
from switchmark.trial.verification import PairEnds
from tests.unit.trial_fakes import (
    T0,
    FakeEngine,
    S,
    event,
    latency_of,
    process,
    result,
    samples,
    trial,
)

STARTED = event("started", t_ns=T0)


def pair(
    values_ns: dict[int, int],
    number: int = 0,
    sent: int | None = None,
    answered: int | None = None,
    late_ns: int = 0,
    **more: Any,
) -> PairEnds:
    count = sum(values_ns.values())
    end = result(
        totals={"tx_offered": count if sent is None else sent},
        loss={"received_unique": count if answered is None else answered},
        latency=latency_of(values_ns, late_ns),
        **more,
    )
    client = FakeEngine({"start": lambda _: [STARTED, *samples(5, rx_frames=2), end]})
    server = FakeEngine({"start": lambda _: [STARTED], "stop": lambda _: [result()]})
    return PairEnds(process(client, "client", number), process(server, "server", number))


def measure(*pairs: PairEnds) -> Any:
    return latency.measure(
        trial("latency", pairs=len(pairs)), pairs, TrimPolicy(warm_up_s=0.5), lambda: None
    )


def test_one_pair() -> None:
    measurement = measure(pair({10_000: 98, 50_000: 2}, late_ns=5_000))
    found = measurement.figures.latency
    assert (found.count, found.lost, found.min_ns, found.max_ns) == (100, 0, 10_000, 50_000)
    assert found.mean_ns == 10_800
    assert found.percentiles_ns["50"] == pytest.approx(10_000, rel=2e-3)
    assert found.percentiles_ns["99"] == pytest.approx(50_000, rel=2e-3)
    assert found.intended_percentiles_ns["50"] == pytest.approx(15_000, rel=2e-3)
    assert found.stdev_ns == pytest.approx(5600, rel=1e-2)
    assert (measurement.trim.kept_from_ns, measurement.trim.kept_to_ns) == (T0, T0 + S)
    assert (
        measurement.trim.samples_kept == measurement.kept_samples == 5
        and measurement.trim.samples_dropped == 0
    )
    assert "warm-up run of 0.5 s" in measurement.trim.policy


def test_pairs_are_merged_sample_by_sample() -> None:
    """Not an average of percentiles: 300 fast and 100 slow answers have a fast median."""
    found = measure(pair({10_000: 300}), pair({90_000: 100}, number=1)).figures.latency
    assert (found.count, found.min_ns, found.max_ns) == (400, 10_000, 90_000)
    assert found.mean_ns == 30_000
    assert found.percentiles_ns["50"] == pytest.approx(10_000, rel=2e-3)
    assert found.percentiles_ns["90"] == pytest.approx(90_000, rel=2e-3)
    assert found.histogram.count == 400
    assert found.intended_histogram.count == 400


def test_delays_that_do_not_vary_have_no_deviation() -> None:
    """The slots of a histogram are 16 us wide there: taken from them, it would be 7 us."""
    found = measure(pair({20_000_777: 50}), pair({20_000_777: 50}, number=1)).figures.latency
    assert (found.mean_ns, found.stdev_ns, found.intended_stdev_ns) == (20_000_777, 0, 0)
    far = measure(pair({20_000_777: 50}), pair({20_001_777: 50}, number=1)).figures.latency
    assert far.stdev_ns == pytest.approx(500)


def test_unanswered_requests_are_counted() -> None:
    found = measure(
        pair({10_000: 90}, sent=100), pair({10_000: 50}, number=1, sent=55)
    ).figures.latency
    assert found.lost == 15


def test_duplicate_answers_do_not_hide_loss() -> None:
    """100 requests, 90 answered, 5 of them twice: 95 times in the histogram, 10 lost."""
    found = measure(pair({10_000: 95}, sent=100, answered=90)).figures.latency
    assert (found.count, found.lost) == (95, 10)


def test_a_pair_without_answers_is_loss_and_no_zero() -> None:
    silent = pair({}, number=1, sent=40)
    found = measure(pair({10_000: 10}), silent).figures.latency
    assert (found.count, found.min_ns, found.lost) == (10, 10_000, 40)


def test_no_answer_at_all() -> None:
    with pytest.raises(TrialFailed, match="no request was answered"):
        measure(pair({}, sent=40))


def test_more_answers_than_requests_fail_the_trial() -> None:
    with pytest.raises(
        TrialFailed, match=r"the answers contradict each other: 11 different .* 10 sent"
    ):
        measure(pair({10_000: 11}, sent=10))


def test_schedule_of_every_client_counts() -> None:
    good, bad = {"on_schedule": True}, {"on_schedule": False}
    assert measure(pair({1000: 1}, pacing=good)).on_schedule
    assert not measure(
        pair({1000: 1}, pacing=good), pair({1000: 1}, number=1, pacing=bad)
    ).on_schedule


def test_warm_up_is_a_separate_run() -> None:
    ends = pair({10_000: 10})
    latency.warm_up([ends], TrimPolicy(warm_up_s=0.5), lambda: None)
    assert ends.a.spawned.commands == ["start duration=0.5"]  # type: ignore[attr-defined]
    measured = latency.measure(trial("latency"), [ends], TrimPolicy(), lambda: None)
    assert measured.figures.latency is not None and measured.figures.latency.count == 10, "not 20"
    idle = pair({10_000: 10})
    latency.warm_up([idle], TrimPolicy(warm_up_s=0), lambda: None)
    assert idle.a.spawned.commands == []  # type: ignore[attr-defined]


def probes(values_ns: dict[int, int], sent: int | None = None) -> dict[str, Any]:
    count = sum(values_ns.values())
    return {
        "totals": {"tx_offered": count if sent is None else sent},
        "loss": {"received_unique": count},
        "latency": latency_of(values_ns),
    }


def pair_with_probes(probe: dict[str, Any] | None, offered: int, arrived: int) -> PairEnds:
    beside = {} if probe is None else {"probe": probe}
    end = result(totals={"tx_offered": offered}, loss={"received_unique": 0}, **beside)
    counted = result(totals={"rx_frames": arrived}, loss={"received_unique": arrived})
    client = FakeEngine({"start": lambda _: [STARTED, *samples(5, rx_frames=0), end]})
    server = FakeEngine({"start": lambda _: [STARTED], "stop": lambda _: [counted]})
    return PairEnds(process(client, "client", 0), process(server, "server", 0))


def measure_probes(*pairs: PairEnds) -> Any:
    requested = trial("latency", pairs=len(pairs), rate_pps=100_000, probe_rate_pps=1000)
    return latency.measure(requested, pairs, TrimPolicy(warm_up_s=0.5), lambda: None)


def test_probes_are_timed_with_the_load_beside_them() -> None:
    found = measure_probes(
        pair_with_probes(probes({10_000: 90}, sent=100), 5000, 4900)
    ).figures.latency
    assert (found.count, found.lost, found.min_ns) == (90, 10, 10_000)
    assert found.beside.probe_rate_pps == 1000
    assert found.beside.intended_pps == 100_000
    assert found.beside.loss_ratio == pytest.approx(0.02)
    assert found.beside.offered_pps > 0


def test_missing_probes_and_impossible_counts_fail() -> None:
    with pytest.raises(TrialFailed, match="gave no figures of its probes"):
        measure_probes(pair_with_probes(None, 10, 10))
    with pytest.raises(TrialFailed, match=r"the probes contradict each other: 101 .* 100 sent"):
        measure_probes(pair_with_probes(probes({10_000: 101}, sent=100), 10, 10))
    with pytest.raises(TrialFailed, match=r"the load contradict each other: 11 .* 10 sent"):
        measure_probes(pair_with_probes(probes({10_000: 5}), 10, 11))
