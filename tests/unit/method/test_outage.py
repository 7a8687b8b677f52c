"""Outages of a set length are found from samples of two clocks."""

from __future__ import annotations

import random

import pytest

from switchmark.method.support.outage import Sample, last_loss, longest_silence

MS = 1_000_000


def samples(counts: list[int], length_ns: int = 10 * MS, begun_ns: int = 0) -> list[Sample]:
    return [
        Sample(begun_ns + (k + 1) * length_ns, length_ns, count) for k, count in enumerate(counts)
    ]


def test_silence_is_bounded_by_its_neighbours() -> None:
    found = longest_silence(samples([9, 9, 0, 0, 0, 4, 9, 0, 9]))
    assert (found.low_s, found.high_s) == (pytest.approx(0.03), pytest.approx(0.05))


def test_silence_without_empty_sample_is_below_a_sample() -> None:
    found = longest_silence(samples([9, 1, 9]))
    assert (found.seconds, found.high_s) == (0.0, 0.01)
    assert longest_silence([]).high_s == 0.0


def test_silence_at_end_has_one_neighbour() -> None:
    found = longest_silence(samples([9, 0, 0]))
    assert (found.low_s, found.high_s) == (pytest.approx(0.02), pytest.approx(0.03))


def traffic(
    outage_ms: float, *, rate_per_ms: int = 20, total_ms: int = 2000, delay_ms: float = 0.3
) -> tuple[list[Sample], list[Sample], int]:
    """Frames at a steady rate that are all lost until `outage_ms`. The samples of 10 ms begin at
    different moments on both sides."""
    gap = 1 / rate_per_ms
    sent = [k * gap for k in range(rate_per_ms * total_ms)]
    arrived = [t + delay_ms for t in sent if t >= outage_ms]

    def sampled(times: list[float], first_ms: float) -> list[Sample]:
        edges = [first_ms + 10 * k for k in range(total_ms // 10 + 1)]
        counts = [0] * len(edges)
        for t in times:
            index = int((t - first_ms) // 10) + 1 if t >= first_ms else 0
            counts[min(index, len(counts) - 1)] += 1
        return [
            Sample(round(edge * MS), (10 if k else round(first_ms)) * MS or 1, count)
            for k, (edge, count) in enumerate(zip(edges, counts, strict=True))
        ]

    return sampled(sent, 10.0), sampled(arrived, 13.0), len(arrived)


@pytest.mark.parametrize("outage_ms", [50.0, 333.0, 1500.0])
def test_last_loss_is_found_at_set_time(outage_ms: float) -> None:
    sent, arrived, unique = traffic(outage_ms)
    found = last_loss(sent, arrived, unique, resolution=64)
    assert found is not None
    assert found.seconds * 1e3 == pytest.approx(outage_ms, abs=15)
    assert found.low_s * 1e3 - 15 <= outage_ms <= found.high_s * 1e3 + 15


def test_last_loss_without_loss_is_none() -> None:
    sent, arrived, unique = traffic(0.0)
    assert last_loss(sent, arrived, unique, resolution=64) is None


def test_last_loss_of_scattered_losses_is_the_last() -> None:
    dice = random.Random(1)
    sent = samples([200] * 100)
    arrived = samples([200 - (dice.randrange(40) if k < 70 else 0) for k in range(100)])
    unique = sum(sample.frames for sample in arrived)
    found = last_loss(sent, arrived, unique, resolution=1)
    assert found is not None
    assert found.seconds == pytest.approx(0.70, abs=0.021)


def test_stale_frames_before_first_sample_do_not_count() -> None:
    sent = samples([100] * 50, begun_ns=1000 * MS)
    earlier = [Sample(k * 10 * MS, 10 * MS, 5000) for k in range(1, 100)]
    later = samples([0] * 20 + [100] * 30, begun_ns=1000 * MS)
    found = last_loss(sent, [*earlier, *later], 3000, resolution=1)
    assert found is not None
    assert found.seconds == pytest.approx(0.20, abs=0.011)
