"""Loads from results and intervals: frames by sequence numbers, rates by measured durations."""

from __future__ import annotations

import pytest

from switchmark.engine.events import Result, parse
from switchmark.engine.loads import (
    Load,
    arrived,
    asked_pps,
    forwarded_l2_bps,
    forwarded_pps,
    frame_rate,
    intended_pps,
    load,
    load_so_far,
    loss_of,
    offered_pps,
    sending_half,
    stream_intended_pps,
    total,
    total_intended_pps,
)
from switchmark.errors import TrialFailed
from tests.unit.engine_lines import counted, counters, event, interval
from tests.unit.trial_fakes import trial

S = 1_000_000_000


def result(**given: object) -> Result:
    parsed = parse(event("result", **given))
    assert isinstance(parsed, Result)
    return parsed


def sent(offered: int, intended: int = 0, duration_s: float = 2.0) -> Result:
    totals = {"tx_offered": offered, "tx_intended": intended}
    return result(totals=totals, duration_ns=round(duration_s * S))


def received(unique: int, **loss: int) -> Result:
    return result(totals={"rx_frames": 7}, loss={"received_unique": unique, **loss})


def test_load_counts_unique_frames_of_a_stream() -> None:
    stream = load("pair 0", sent(1000, intended=1200), received(900, duplicates=50))
    assert stream == Load(1200, 1000, 900, 500.0)
    assert (stream.lost_frames, stream.loss_ratio) == (100, 0.1), "copies do not replace losses"


def test_intended_load_at_rate_max_is_the_offered_load() -> None:
    assert load("pair 0", sent(1000, intended=0), received(1000)).intended_frames == 1000


def test_more_received_than_sent_frames_fail_the_trial() -> None:
    with pytest.raises(TrialFailed, match=r"of pair 3 contradict each other: 11 .* 10 sent"):
        load("pair 3", sent(10), received(11))


def test_more_received_than_announced_frames_count_as_all_sent() -> None:
    """The receiver got the number of sent frames, and reports the contradiction itself."""
    stream = load("pair 3", sent(10), received(11, sent=10))
    assert (stream.unique_frames, stream.lost_frames) == (10, 0)


def test_result_without_received_frames_has_no_loss() -> None:
    with pytest.raises(TrialFailed, match="does not report its received frames"):
        loss_of(result())


def test_total_adds_loads() -> None:
    parts = [load("a", sent(1000), received(900)), load("b", sent(500, duration_s=1), received(1))]
    assert total(parts) == Load(1500, 1500, 901, 1000.0)
    assert total([]).loss_ratio == 0.0


def test_load_so_far_counts_frames_in_flight_as_lost() -> None:
    partial = load_so_far(sent(1000), [interval(rx_frames=300), interval(rx_frames=400)])
    assert (partial.unique_frames, partial.lost_frames) == (700, 300)
    assert load_so_far(sent(100), [interval(rx_frames=150)]).lost_frames == 0


def test_rates_divide_all_frames_by_the_whole_duration() -> None:
    short = interval(duration_ns=S // 10, tx_intended=20, tx_offered=10, rx_frames=5, rx_bytes=500)
    long = interval(duration_ns=9 * S // 10, tx_intended=80, tx_offered=90, rx_frames=5)
    both = [short, long]
    assert (intended_pps(both), offered_pps(both), forwarded_pps(both)) == (100.0, 100.0, 10.0)
    assert forwarded_l2_bps(both) == 4000.0
    assert forwarded_pps([interval(duration_ns=S, rx_frames=-5)]) == -5.0, (
        "rx_stale subtracts frames"
    )


def test_sending_half_has_no_receive_counters() -> None:
    both = counters(tx_offered=5, tx_polls=2, ring_full_polls=1, rx_frames=9, useful_polls=3)
    assert sending_half(both) == counters(tx_offered=5, tx_polls=2, ring_full_polls=1)


def test_arrived_counts_all_frames_at_an_application() -> None:
    counts = counted(
        rx_stream=1, rx_verification=2, rx_foreign=4, rx_other=8, rx_corrupt=16, rx_stale=32
    )
    assert arrived(counts) == 63
    assert arrived(counted(rx_socket_drops=5, tx_offered=7)) == 0


def test_intended_load_comes_from_the_trial_or_the_sender() -> None:
    """A constant rate is the trial's parameter, per stream. For a schedule the sender counts it."""
    both_ways = trial(rate_pps=1000, pairs=2, bidirectional=True)
    assert asked_pps(both_ways, 1) == stream_intended_pps(both_ways, []) == 1000
    assert total_intended_pps(both_ways, []) == 4000
    assert asked_pps(trial(), 1) is total_intended_pps(trial(), []) is None
    ramp = trial(schedule="ramp:1k:2k:1s")
    line = interval(tx_intended=300, duration_ns=S // 5)
    assert stream_intended_pps(ramp, [line]) == 1500
    assert total_intended_pps(ramp, [1500.0, 500.0]) == 2000
    assert stream_intended_pps(trial(schedule="on-off:10ms:90ms"), [line]) is None
    assert (frame_rate(10, S // 2), frame_rate(10, 0)) == (20.0, 0.0)
