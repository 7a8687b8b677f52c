"""Throughput from scripted engines; every expected number is worked out by hand."""

from __future__ import annotations

import re
import time
from typing import Any, cast

import pytest

from switchmark.engine.process import EngineProcess
from switchmark.errors import TrialFailed
from switchmark.model.campaign import TrimPolicy
from switchmark.trial import throughput, traffic
from switchmark.trial.traffic import run_traffic
from switchmark.trial.verification import PairEnds
from tests.unit.engine_lines import counters
from tests.unit.trial_fakes import (
    T0,
    FakeEngine,
    S,
    event,
    interval,
    process,
    result,
    samples,
    trial,
)

POLICY = TrimPolicy(warm_up_s=0.4, cool_down_s=0.4)
LOSS = {"duplicates": 0, "reordered": 0, "first_sequence": 0}


def engine(role: str, pair: int, *lines: str, at_s: float = 0.0) -> EngineProcess:
    """Prints these at start; of a receiver the last line comes at stop."""
    begin = event("started", t_ns=T0 + round(at_s * S))
    if role == "sender":
        answers = {"start": lambda _: [begin, *lines]}
    else:
        answers = {"start": lambda _: [begin, *lines[:-1]], "stop": lambda _: [lines[-1]]}
    return process(FakeEngine(answers), role, pair)


def sender(pair: int, lines: list[str], offered: int, at_s: float = 0.0, **more: Any) -> Any:
    end = result(totals={"tx_offered": offered}, **more)
    return engine("sender", pair, *lines, end, at_s=at_s)


def receiver(
    pair: int, lines: list[str], unique: int, corrupt: int = 0, drops: int = 0, **loss: int
) -> Any:
    totals = {"rx_corrupt": corrupt, "rx_socket_drops": drops}
    end = result(totals=totals, loss=LOSS | {"received_unique": unique} | loss)
    return engine("receiver", pair, *lines, end)


def measure(*ends: tuple[EngineProcess, EngineProcess], **changes: Any) -> Any:
    pairs = [PairEnds(a, b) for a, b in ends]
    requested = trial(pairs=len(pairs), **changes)
    return throughput.measure(requested, pairs, POLICY, lambda: None)


def one_pair(**changes: Any) -> Any:
    a = sender(0, samples(10, tx_offered=1000, tx_polls=40), offered=10_000)
    b = receiver(0, samples(10, rx_frames=900), unique=9000)
    return measure((a, b), **changes)


def test_one_pair() -> None:
    measurement = one_pair()
    load = measurement.figures.throughput
    # Samples from 0.4 s to 1.6 s: six, of 1000 sent and 900 received in 0.2 s each.
    assert (load.offered_pps, load.forwarded_pps) == (5000.0, 4500.0)
    assert load.forwarded_l2_bps == 4500 * 64 * 8
    assert load.forwarded_l1_bps == 4500 * 84 * 8
    assert load.loss_ratio == 0.1 and load.forwarded_stdev_pps == 0.0
    assert load.intended_pps is None and load.pairs[0].lost_frames == 1000
    assert measurement.source_counters == counters(tx_offered=6000, tx_polls=240)
    assert measurement.sink_counters == counters(rx_frames=5400)
    assert (
        measurement.kept_samples == measurement.trim.samples_kept == 6
        and measurement.trim.samples_dropped == 4
    )
    assert measurement.on_schedule


def test_drops_and_loss_are_of_the_same_time() -> None:
    """Of the whole trial: frames dropped before the kept window are among those lost."""
    early = [interval(k, 0.2 + 0.2 * k, rx_frames=900 if k < 2 else 1000) for k in range(10)]
    a = sender(0, samples(10, tx_offered=1000), offered=10_000)
    b = receiver(0, early, unique=9800, drops=200)
    measurement = measure((a, b))
    assert measurement.figures.throughput.pairs[0].lost_frames == measurement.socket_drops == 200
    assert measurement.sent_frames == 10_000
    assert measurement.source_counters.tx_offered == 6000, "of the kept window"


def test_loss_and_rates_are_of_the_same_time() -> None:
    """Losses before the kept window do not count for the rates in it."""
    missing = [150 if k < 2 else 20 for k in range(10)]
    lines = [
        interval(k, 0.2 + 0.2 * k, rx_frames=1000 - lost, rx_missing=lost, rx_missed_away=lost // 4)
        for k, lost in enumerate(missing)
    ]
    totals = {"rx_frames": 10_000 - 460, "rx_missing": 460}
    end = result(totals=totals, loss=LOSS | {"received_unique": 10_000 - 460})
    a = sender(0, samples(10, tx_offered=1000), offered=10_000)
    load = measure((a, engine("receiver", 0, *lines, end))).figures.throughput
    assert (load.loss_ratio, load.away_share) == (0.02, 0.25)
    assert load.forwarded_pps == load.offered_pps * 0.98
    assert load.pairs[0].lost_frames == 460, "of the whole trial"


def test_lost_last_frames_are_counted() -> None:
    """A switch that falls silent in the kept window: no sequence number shows what it swallowed."""
    lines = [
        interval(k, 0.2 + 0.2 * k, rx_frames=990 if k < 5 else 0, rx_missing=10 if k < 5 else 0)
        for k in range(10)
    ]
    end = result(
        totals={"rx_frames": 4950, "rx_missing": 50}, loss=LOSS | {"received_unique": 4950}
    )
    a = sender(0, samples(10, tx_offered=1000), offered=10_000)
    load = measure((a, engine("receiver", 0, *lines, end))).figures.throughput
    assert load.loss_ratio == (3 * 10 + 3 * 1000) / (3 * 1000 + 3 * 1000)


def test_loss_after_last_arrival_is_outside_the_window() -> None:
    """A receiver that ends with a full buffer: no gap, and the last 1500 of 10,000 are lost."""
    lines = [interval(k, 0.2 + 0.2 * k, rx_frames=1000 if k < 8 else 500) for k in range(9)]
    loss = LOSS | {"received_unique": 8500, "last_sequence": 8499}
    end = result(totals={"rx_frames": 8500, "rx_missing": 0}, loss=loss)
    a = sender(0, samples(10, tx_offered=1000), offered=10_000)
    load = measure((a, engine("receiver", 0, *lines, end))).figures.throughput
    assert load.loss_ratio == 0 and load.pairs[0].lost_frames == 1500


def test_loss_without_places_is_that_of_the_whole_trial() -> None:
    """Two queues: numbers of both streams run from 0 to 4999, so 8500 are not contiguous."""
    lines = [interval(k, 0.2 + 0.2 * k, rx_frames=850) for k in range(10)]
    loss = LOSS | {"received_unique": 8500, "last_sequence": 4999}
    end = result(totals={"rx_frames": 8500, "rx_missing": 0}, loss=loss)
    a = sender(0, samples(10, tx_offered=1000), offered=10_000)
    load = measure((a, engine("receiver", 0, *lines, end))).figures.throughput
    assert load.loss_ratio == 0.15


def test_drops_of_a_full_queue_are_lost_when_offered() -> None:
    """A path that carries a tenth and holds 3000 frames: gaps come when the trial is over."""
    fill = [interval(k, 0.2 + 0.2 * k, rx_frames=100) for k in range(33)]
    late = [interval(33, 6.8, rx_frames=700, rx_missing=6000)]
    end = result(
        totals={"rx_frames": 4000, "rx_missing": 6000}, loss=LOSS | {"received_unique": 4000}
    )
    a = sender(0, samples(10, tx_offered=1000), offered=10_000)
    load = measure((a, engine("receiver", 0, *fill, *late, end))).figures.throughput
    # Frames 2000 to 8000 were offered in the window. The first 3300 came without a gap; of the
    # others 6000 of 6700 are missing.
    assert load.forwarded_pps == 500.0 and load.offered_pps == 5000.0
    assert load.loss_ratio == pytest.approx((8000 - 3300) * 6000 / 6700 / 6000, abs=1e-4)


def test_each_receiver_gets_its_number_of_sent_frames() -> None:
    senders = [sender(k, samples(10, tx_offered=1), offered=10 + k) for k in range(2)]
    receivers = [receiver(k, samples(10, rx_frames=1), unique=10) for k in (1, 0)]
    run_traffic(senders, receivers, 2.0, lambda: None)
    observed = [one.spawned.commands[-1] for one in receivers]
    assert observed == ["stop sent=11", "stop sent=10"]


def test_receivers_start_first_and_stop_last() -> None:
    order: list[str] = []
    a = sender(0, samples(10, tx_offered=1), offered=10)
    b = receiver(0, samples(10, rx_frames=1), unique=10)
    for item in (a, b):
        item.spawned.log = order
        write = item.spawned.write_line
        item.spawned.write_line = lambda line, w=write, r=item.role: (
            order.append(f"{r} {line}"),
            w(line),
        )
    run_traffic([a], [b], 2.0, lambda: None)
    assert order == [
        "receiver start duration=0",
        "sender start duration=2.0",
        "receiver stop sent=10",
    ]


def test_all_begin_before_the_bench_waits_for_the_first() -> None:
    """Otherwise the first of 64 would end before the last begins."""
    order: list[str] = []
    ends = [
        (sender(k, samples(10, tx_offered=1), 10), receiver(k, samples(10, rx_frames=1), 10))
        for k in range(3)
    ]
    for pair in ends:
        for item in pair:
            write, read = item.spawned.write_line, item.spawned.read_line
            item.spawned.write_line = lambda line, w=write, r=item.role: (
                order.append(f"{r} {line.split()[0]}"),
                w(line),
            )
            item.spawned.read_line = lambda timeout_s, w=read, r=item.role: (
                order.append(f"{r} read"),
                w(timeout_s),
            )[1]
    run_traffic([a for a, _ in ends], [b for _, b in ends], 2.0, lambda: None)
    assert order[:6] == ["receiver start"] * 3 + ["receiver read"] * 3
    assert order[6:9] == ["sender start"] * 3


def test_loss_comes_from_sequence_numbers_not_from_rates() -> None:
    """Late counting at the receiver changes a rate; it loses nothing."""
    a = sender(0, samples(10, tx_offered=1000), offered=10_000)
    b = receiver(0, samples(9, rx_frames=1000), unique=10_000, duplicates=3, reordered=7)
    load = measure((a, b)).figures.throughput
    assert load.loss_ratio == 0.0
    assert (load.pairs[0].lost_frames, load.pairs[0].duplicates, load.pairs[0].reordered) == (
        0,
        3,
        7,
    )


def test_duplicates_do_not_make_up_for_loss() -> None:
    a = sender(0, samples(10, tx_offered=1000), offered=10_000)
    b = receiver(0, samples(10, rx_frames=1000), unique=7500, duplicates=2500)
    load = measure((a, b)).figures.throughput
    assert load.loss_ratio == 0.25 and load.pairs[0].lost_frames == 2500


def test_pairs_are_summed_over_the_time_in_which_all_sent() -> None:
    """The second pair starts 0.3 s later: both are read from 0.7 s to 1.6 s."""
    late = [interval(k, 0.5 + 0.2 * k, tx_offered=500) for k in range(10)]
    late_rx = [interval(k, 0.5 + 0.2 * k, rx_frames=400) for k in range(10)]
    first = sender(0, samples(10, tx_offered=1000), offered=10_000)
    second = sender(1, late, offered=5000, at_s=0.3)
    measurement = measure(
        (first, receiver(0, samples(10, rx_frames=1000), unique=10_000)),
        (second, receiver(1, late_rx, unique=4000)),
    )
    load = measurement.figures.throughput
    assert (measurement.trim.kept_from_ns - T0, measurement.trim.kept_to_ns - T0) == (
        0.7 * S,
        1.6 * S,
    )
    assert [pair.offered_pps for pair in load.pairs] == [5000.0, 2500.0]
    assert [pair.forwarded_pps for pair in load.pairs] == [5000.0, 2000.0]
    assert (load.offered_pps, load.forwarded_pps) == (7500.0, 7000.0)
    assert load.loss_ratio == 1000 / 15_000
    # 0.8 to 1.6 on the first clock are four samples; 0.7 to 1.5 on the second are also four.
    assert measurement.kept_samples == 4 and measurement.trim.samples_kept == 8


def test_samples_of_unequal_length_count_by_their_length() -> None:
    ends = [(0.4, 0.4), (0.5, 0.1), (1.4, 0.9), (1.5, 0.1), (2.0, 0.5)]
    tx = [interval(k, end, length, tx_offered=100) for k, (end, length) in enumerate(ends)]
    rx = [interval(k, end, length, rx_frames=100) for k, (end, length) in enumerate(ends)]
    load = measure((sender(0, tx, offered=500), receiver(0, rx, unique=500))).figures.throughput
    # 300 frames in 0.1 + 0.9 + 0.1 s
    assert load.forwarded_pps == load.offered_pps == pytest.approx(300 / 1.1)
    # rates of the samples: 1000, 111.1, 1000; mean 703.7, deviations 296.3, -592.6, 296.3
    assert load.forwarded_stdev_pps == pytest.approx(513.2, abs=0.1)


def test_spreads_of_pairs_add_as_variances() -> None:
    def swinging(name: str) -> list[str]:
        return [interval(k, 0.2 * (k + 1), **{name: 90 if k % 2 else 110}) for k in range(10)]

    ends = [
        (sender(k, swinging("tx_offered"), offered=1000), receiver(k, swinging("rx_frames"), 1000))
        for k in range(2)
    ]
    load = measure(*ends).figures.throughput
    # six samples of 550 or 450 frames/s a pair: variance 6 * 50^2 / 5 = 3000, twice
    assert load.forwarded_stdev_pps == pytest.approx(6000**0.5)


def test_intended_load_is_a_pair_s_times_pairs() -> None:
    ends = [
        (
            sender(k, samples(10, tx_offered=100), offered=1000),
            receiver(k, samples(10, rx_frames=100), unique=1000, corrupt=k),
        )
        for k in range(3)
    ]
    load = measure(*ends, rate_pps=500).figures.throughput
    assert load.intended_pps == 1500.0
    assert [pair.intended_pps for pair in load.pairs] == [500.0] * 3
    assert [pair.corrupt for pair in load.pairs] == [0, 1, 2]


@pytest.mark.parametrize(("saved", "expected"), [(True, True), (False, False)])
def test_schedule(saved: bool, expected: bool) -> None:
    a = sender(0, samples(10, tx_offered=1), offered=10, pacing={"on_schedule": saved})
    b = receiver(0, samples(10, rx_frames=1), unique=10)
    assert measure((a, b)).on_schedule is expected


def test_more_received_than_sent_fails_the_trial() -> None:
    a = sender(0, samples(10, tx_offered=1), offered=10)
    b = receiver(0, samples(10, rx_frames=1), unique=11)
    with pytest.raises(TrialFailed, match=r"pair 0 contradict each other: 11 different .* 10 sent"):
        measure((a, b))


def test_no_sample_in_the_window_is_not_no_traffic() -> None:
    a = sender(0, samples(10, tx_offered=1), offered=10)
    b = receiver(0, [interval(0, 2.0, 2.0, rx_frames=10)], unique=10)
    with pytest.raises(TrialFailed, match=r"no sample of the receiver in re0 .* from its core"):
        measure((a, b))


def test_senders_that_never_sent_together() -> None:
    ends = [
        (
            sender(k, samples(10, tx_offered=1), offered=10, at_s=3.0 * k),
            receiver(k, samples(10, rx_frames=1), unique=10),
        )
        for k in range(2)
    ]
    with pytest.raises(TrialFailed, match="never sent all at the same time"):
        measure(*ends)


def test_a_tick_ends_the_traffic_at_once() -> None:
    def died() -> None:
        raise TrialFailed("the switch died")

    a = engine("sender", 0)
    b = receiver(0, [], unique=0)
    with pytest.raises(TrialFailed, match="the switch died"):
        run_traffic([a], [b], 3600.0, died)


def test_a_sender_without_result_has_a_deadline() -> None:
    a, b = engine("sender", 0), receiver(0, [], unique=0)
    with pytest.raises(TrialFailed, match="sender in se0 gave no result"):
        run_traffic([a], [b], 0.1, lambda: None)


def test_time_in_which_the_bench_did_not_run_ends_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine stood still past the deadline; the engine needs a moment to say its result."""
    monkeypatch.setattr(traffic, "RESULT_GRACE_S", 0.0)
    a = engine("sender", 0)
    looks = iter([event("started", t_ns=T0), None, result()])

    def read_line(_: float) -> str:
        line = next(looks)
        if line is None:
            time.sleep(0.2)
            raise TimeoutError
        return line

    monkeypatch.setattr(a.spawned, "read_line", read_line)
    run_traffic([a], [], 0.1, lambda: None)
    assert a.has_result


def test_an_engine_that_ends_in_mid_trial_is_named() -> None:
    a = engine("sender", 0)
    b = receiver(0, [], unique=0)

    def kill() -> None:
        b.spawned.exit_code = -9

    with pytest.raises(TrialFailed, match="receiver in re0 ended with exit code -9"):
        run_traffic([a], [b], 3600.0, kill)


def duplex(pair: int, sent: int, got: int, offered: int, unique: int) -> EngineProcess:
    """One end of a bidirectional path; prints its result by itself, as it has a duration."""
    begin = event("started", t_ns=T0)
    lines = samples(10, tx_offered=sent, rx_frames=got, tx_polls=10, useful_polls=5, rx_foreign=1)
    end = result(totals={"tx_offered": offered}, loss=LOSS | {"received_unique": unique})
    return process(FakeEngine({"start": lambda _: [begin, *lines, end]}), "duplex", pair)


def test_both_directions_are_kept_and_summed() -> None:
    a, b = duplex(0, 1000, 450, 10_000, 4500), duplex(0, 500, 900, 5000, 9000)
    requested = trial(bidirectional=True, rate_pps=5000)
    streams = [PairEnds(a, b), PairEnds(b, a, "reverse")]
    measurement = throughput.measure(requested, streams, POLICY, lambda: None)
    load = measurement.figures.throughput
    assert load is not None
    forward, reverse = load.directions
    assert (forward.direction, forward.offered_pps, forward.forwarded_pps) == (
        "forward", 5000.0, 4500.0,
    )  # fmt: skip
    assert (reverse.direction, reverse.offered_pps, reverse.forwarded_pps) == (
        "reverse", 2500.0, 2250.0,
    )  # fmt: skip
    assert (forward.loss_ratio, reverse.loss_ratio) == (0.1, 0.1)
    assert (load.offered_pps, load.forwarded_pps) == (7500.0, 6750.0), "the sum"
    assert load.intended_pps == 10_000.0, "each way at the rate"
    assert [(pair.pair, pair.direction) for pair in load.pairs] == [(0, "forward"), (0, "reverse")]
    assert measurement.source_counters.rx_foreign == 0, "arrived frames are counted once"
    assert (
        measurement.sink_counters.rx_foreign == 12 and measurement.source_counters.tx_polls == 120
    )


def commands_of(end: EngineProcess) -> list[str]:
    """Return the commands that a fake engine received."""
    return list(cast(FakeEngine, end.spawned).commands)


def test_ends_that_send_and_receive_begin_together() -> None:
    a, b = duplex(0, 1, 1, 10, 10), duplex(0, 1, 1, 10, 10)
    run_traffic([a, b], [b, a], 2.0, lambda: None)
    observed = [commands_of(end) for end in (a, b)]
    assert all(len(commands) == 1 for commands in observed), "one start each, and no stop"
    moments = {word for (line,) in observed for word in line.split() if word.startswith("at=")}
    assert len(moments) == 1 and "duration=2.0" in observed[0][0]


class Late(FakeEngine):
    """Gets the first few starts a second after the moment at which it should begin."""

    def __init__(self, starts: int) -> None:
        super().__init__({"start": self.begin})
        self.late_starts = starts

    def begin(self, _: FakeEngine) -> list[str]:
        arguments = self.commands[-1].split()[1:]
        at_ns = int(dict(word.split("=") for word in arguments)["at"])
        self.late_starts -= 1
        begun_ns = at_ns + (S if self.late_starts >= 0 else 0)
        counted = {"tx_offered": 10 * (self.late_starts < 0)}
        return [event("started", t_ns=begun_ns), result(totals=counted)]


def test_late_start_is_repeated_with_more_time() -> None:
    a, b = process(Late(0)), process(Late(2))
    run_traffic([a, b], [b, a], 0.1, lambda: None)
    for end in (a, b):
        observed = [line.split()[0] for line in commands_of(end)]
        assert observed == ["start", "stop", "start", "stop", "start"], "two starts are given up"
        assert end.result.totals.tx_offered == 10
    starts = [[line for line in commands_of(end) if "at=" in line] for end in (a, b)]
    moments = [[int(line.split("at=")[1]) for line in lines] for lines in starts]
    assert moments[0] == moments[1], "all get the same moment"
    assert moments[0][2] - moments[0][0] > 2 * S, "the third start has seconds"


def test_ends_that_never_begin_together_fail_the_trial() -> None:
    a, b = process(Late(0)), process(Late(99))
    with pytest.raises(TrialFailed, match="were not all listening when the first began to send"):
        run_traffic([a, b], [b, a], 0.1, lambda: None)


@pytest.mark.parametrize("duration_s", [10.0, 0.25, 1e-4, 1e-3 / 3, 5e-5**0.5, 2 / 3])
def test_a_duration_is_written_as_the_engine_reads_it(duration_s: float) -> None:
    """Without an exponent, and with nine digits at most behind the point; of a geometric mean,
    as searches for the longest burst ask for, Python would print eighteen."""
    fake = FakeEngine({"start": lambda _: [event("started", t_ns=T0), result(duration_s)]})
    run_traffic([process(fake, "sender", 0)], [], duration_s, lambda: None)
    (text,) = re.findall(r"duration=(\S+)", fake.commands[0])
    assert len(text.partition(".")[2]) <= 9
    assert float(text) == pytest.approx(duration_s, abs=1e-9)
