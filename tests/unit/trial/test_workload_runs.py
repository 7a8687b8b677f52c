"""Several pairs of an application: sums, and what cannot be added."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import mean, pstdev, stdev
from typing import Any

import pytest

from switchmark.instrument.support.reading import CountedInterval, RoundTrips
from switchmark.instrument.support.workload import WorkloadEnd, WorkloadReading
from switchmark.record import EndCpu, Transport
from switchmark.statistics.histogram import Histogram
from switchmark.trial.workload_runs import (
    WorkloadRuns,
    added_counts,
    merged_readings,
    merged_transports,
)


def samples(*amounts: int, length_ns: int = 100) -> tuple[CountedInterval, ...]:
    return tuple(
        CountedInterval((k + 1) * length_ns, length_ns, amount) for k, amount in enumerate(amounts)
    )


def trips(*delays_ns: int) -> RoundTrips:
    return RoundTrips(
        Histogram.of(Counter(delays_ns)), min(delays_ns), mean(delays_ns), pstdev(delays_ns),
        max(delays_ns),
    )  # fmt: skip


def reading(done: int, **more: object) -> WorkloadReading:
    client = WorkloadEnd(("client",), "1", samples(done, done))
    server = WorkloadEnd(("server",), "1", samples(done, done, done))
    first = WorkloadReading(
        client, server, duration_ns=200, sent=done + 1, done=done, payload_forth=10 * done,
        payload_back=done, failures={"reset": 1},
    )  # fmt: skip
    return replace(first, **more)  # type: ignore[arg-type]


def test_amounts_are_added_sample_by_sample() -> None:
    longer = samples(400, 400, length_ns=200)
    assert [one.frames for one in added_counts([samples(5, 6, 7), longer])] == [205, 206]
    assert [one.t_ns for one in added_counts([samples(5, 6, 7), longer])] == [100, 200]


def test_readings_of_pairs_are_sums() -> None:
    merged = merged_readings([reading(5), reading(7, duration_ns=300)])
    assert (merged.sent, merged.done, merged.duration_ns) == (14, 12, 300)
    assert (merged.payload_forth, merged.payload_back) == (120, 12)
    assert merged.failures == {"reset": 2}
    assert [one.frames for one in merged.client.counts] == [12, 12]
    assert merged.round_trips is None
    assert merged_readings([reading(5), reading(7, payload_forth=None)]).payload_forth is None


def test_round_trips_of_pairs_are_those_of_all_requests() -> None:
    both = [reading(5, round_trips=trips(100, 300)), reading(7, round_trips=trips(200, 200, 900))]
    found = merged_readings(both).round_trips
    assert found is not None
    assert (found.min_ns, found.max_ns, found.histogram.count) == (100, 900, 5)
    assert found.mean_ns == pytest.approx(340)
    assert found.stdev_ns == pytest.approx(stdev([100, 300, 200, 200, 900]))
    one_lacks = [reading(5, round_trips=trips(100)), reading(7)]
    assert merged_readings(one_lacks).round_trips is None


class FakePart:
    """A pair whose client ends after some looks, and must not be asked again."""

    def __init__(self, looks: int, calls: list[str]) -> None:
        self._looks, self._calls = looks, calls

    def prepare(self) -> None:
        self._calls.append("prepare")

    def begin(self) -> None:
        self._calls.append("begin")

    def running(self) -> bool:
        assert self._looks >= 0, "its client has ended"
        self._looks -= 1
        return self._looks >= 0

    def finish(self) -> WorkloadReading:
        assert self._looks < 0, "its client runs"
        return reading(5)


def test_clients_begin_when_all_are_ready_and_end_one_by_one() -> None:
    calls: list[str] = []
    parts: list[Any] = [FakePart(1, calls), FakePart(3, calls)]
    runs = object.__new__(WorkloadRuns)
    runs.parts = parts
    ticks: list[int] = []
    runs.prepare()
    assert calls == ["prepare", "prepare"], "before the measurement, since containers start slowly"
    assert runs.measure(lambda: ticks.append(1)).done == 10
    assert calls == ["prepare", "prepare", "begin", "begin"]
    assert len(ticks) == 3


def test_transports_of_pairs_are_one_account() -> None:
    def part(node: str, requests: int | None) -> Transport:
        return Transport(
            protocol="tcp", retransmitted_segments={node: 3}, payload_forth=125_000_000,
            requests_sent=requests, requests_answered=requests, packets_forth=10,
            client_cpu=EndCpu(seconds=2.0), server_cpu=EndCpu(seconds=4.0),
        )  # fmt: skip

    merged = merged_transports([part("a", 10), part("b", 30)], 8.0)
    assert merged.retransmitted_segments == {"a": 3, "b": 3}
    assert (merged.packets_forth, merged.requests_answered) == (20, 40)
    assert merged.client_cpu == EndCpu(seconds=4.0, per_gigabit_s=2.0, per_request_us=100_000.0)
    assert merged.switch_cpu is not None and merged.switch_cpu.per_gigabit_s == 4.0
    assert merged_transports([part("a", None), part("b", None)], None).requests_answered is None
