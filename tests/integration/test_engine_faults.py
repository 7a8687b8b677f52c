"""The `reference` role's faults, each set by itself and found again by a receiver behind it.

Counts are exact for every n-th; for random faults they lie within four deviations of the
binomial distribution, and are exactly what the reference itself says it did. Times lie
within 1 us of the set delay plus the floor measured without it; the machine's noise only ever
adds, so the shortest of a run is compared and disturbed runs are tried again (`find`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.engine_tools import Engine, Event, Node, engine, engine_path, ip, veth_pair
from tests.integration.truth_rig import find

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make namespaces and devices"),
    pytest.mark.skipif(engine_path() is None, reason="the engine is not built"),
]

RATE_PPS = 20_000
DURATION_S = 0.5
FRAMES = int(RATE_PPS * DURATION_S)
PATIENT = ["--catch-up-us", "20000000"]  # every intended frame is sent, however late


@pytest.fixture(scope="module")
def chain() -> Iterator[tuple[Node, Node, Node, Node]]:
    """Sender, the reference's two devices (in one namespace), receiver."""
    with veth_pair("fa") as (a, left), veth_pair("fb") as (right, b):
        ip("-n", right.namespace, "link", "set", right.device, "netns", left.namespace)
        ip("-n", left.namespace, "link", "set", right.device, "up")
        yield a, left, right, b


@contextmanager
def reference(chain: tuple[Node, Node, Node, Node], *faults: str) -> Iterator[Engine]:
    _, left, right, _ = chain
    ports = [f"--port=raw:dev={end.device},mmsg" for end in (left, right)]
    process = Engine(
        "reference", [*ports, *faults, "--start", "now", "--core", "0"], left.namespace
    )
    try:
        process.wait("started")
        yield process
    finally:
        process.close()


def run(
    chain: tuple[Node, Node, Node, Node],
    *faults: str,
    rate: int = RATE_PPS,
    burst: int = 1,
    traffic: tuple[str, ...] = (),
) -> tuple[Event, Event, dict[str, int]]:
    """Results of sender and receiver, and what the reference did on the way there."""
    a, _, _, b = chain
    ends = ["--idle", "yield", "--core", "1", *traffic]
    with (
        reference(chain, *faults) as between,
        engine("receiver", f"--port=raw:dev={b.device},mmsg", *ends, node=b) as receiver,
        engine("sender", f"--port=raw:dev={a.device},mmsg", *ends, *PATIENT, node=a) as sender,
    ):
        receiver.tell("start latency=1")
        receiver.wait("started")
        sender.tell(f"start duration={DURATION_S} rate={rate} burst={burst}")
        sent, code = sender.finish("wait")
        assert code == 0
        received, code = receiver.finish("stop")
        assert code == 0
        did, code = between.finish("stop")
        assert code == 0
    assert sent["totals"]["tx_offered"] == rate * DURATION_S
    assert received["totals"]["rx_socket_drops"] == 0
    return sent, received, did["ports"][1]["faults"]


def struck(frames: int, every: int) -> int:
    """How many of the first `frames` are chosen: those at n/2, n/2 + n, ..."""
    return (frames - 1 - every // 2) // every + 1 if frames > every // 2 else 0


def found(received: Event) -> dict[str, int]:
    """What the receiver says of each fault. A damaged frame is no frame of the stream: it
    is missing, too, and was not dropped."""
    loss, corrupt = received["loss"], received["totals"]["rx_corrupt"]
    return {
        "drop": FRAMES - loss["received_unique"] - corrupt,
        "duplicate": loss["duplicates"],
        "reorder": loss["reordered"],
        "corrupt": corrupt,
    }


FAULTS = {
    "drop": "dropped",
    "duplicate": "duplicated",
    "reorder": "reordered",
    "corrupt": "corrupted",
}


@pytest.mark.parametrize("fault", ["drop", "duplicate", "corrupt"])
@pytest.mark.parametrize("touch", [(), ("--touch", "--frame-size", "300")])
def test_every_nth_is_found_exactly(
    chain: tuple[Node, Node, Node, Node], fault: str, touch: tuple[str, ...]
) -> None:
    _, received, did = run(chain, f"--{fault}-every", "40", traffic=touch)
    due = dict.fromkeys(FAULTS, 0) | {fault: struck(FRAMES, 40)}
    assert found(received) == due
    assert {name: did[word] for name, word in FAULTS.items()} == due


def test_overtaken_frames_are_found_exactly(chain: tuple[Node, Node, Node, Node]) -> None:
    """In bursts, so that the follower comes at once and not after the 2 ms of patience."""

    def missing() -> float:
        _, received, did = run(chain, "--reorder-every", "50", burst=2)
        loss, due = received["loss"], struck(FRAMES, 50)
        assert did["reordered"] == due
        assert loss["lost"] == loss["duplicates"] == 0
        assert loss["reordered"] <= due
        if loss["reordered"]:
            assert loss["max_reorder_extent"] == loss["mean_reorder_extent"] == 1
            assert loss["n_reordered"]["1"] == loss["reordered"]
            assert loss["max_n_reordered"] == 1
        assert loss["reordered_ratio"] == pytest.approx(loss["reordered"] / FRAMES)
        return float(due - loss["reordered"])

    find(0, 0, missing)


@pytest.mark.parametrize(
    ("fault", "share"),
    [("drop", 0.02), ("drop", 0.5), ("duplicate", 0.1), ("corrupt", 0.05)],
)
def test_random_faults_are_binomial_and_exactly_those_reported(
    chain: tuple[Node, Node, Node, Node], fault: str, share: float
) -> None:
    seed = "77"
    _, received, did = run(chain, f"--{fault}-share", str(share), "--fault-seed", seed)
    seen = found(received)
    assert seen == {name: did[word] for name, word in FAULTS.items()}
    deviation = math.sqrt(FRAMES * share * (1 - share))
    assert abs(seen[fault] - FRAMES * share) <= 4 * deviation


def test_a_seed_gives_the_same_faults_again(chain: tuple[Node, Node, Node, Node]) -> None:
    drop = ("--drop-share", "0.1", "--fault-seed")
    counts = [found(run(chain, *drop, seed)[1])["drop"] for seed in ("5", "5", "6")]
    assert counts[0] == counts[1] != counts[2]


def test_random_overtaking_is_found_as_it_was_done(chain: tuple[Node, Node, Node, Node]) -> None:
    def missing() -> float:
        _, received, did = run(chain, "--reorder-share", "0.05", burst=4)
        assert received["loss"]["lost"] == received["loss"]["duplicates"] == 0
        # A frame is not held while another is: p / (1 + p) of them are.
        share = 0.05 / 1.05
        deviation = math.sqrt(FRAMES * share * (1 - share))
        assert abs(did["reordered"] - FRAMES * share) <= 4 * deviation
        return float(did["reordered"] - received["loss"]["reordered"])

    # Patience ends for some of those that were last of their burst when the sender stalls.
    find(0, 3, missing)


def shortest_ns(chain: tuple[Node, Node, Node, Node], *faults: str) -> float:
    """The least of three runs: what noise has touched least."""
    runs = [run(chain, *faults, rate=2000)[1]["latency"] for _ in range(3)]
    return float(min(latency["min_ns"] for latency in runs))


@pytest.mark.parametrize("delay_us", [50, 2000])
def test_delays_are_the_set_one_and_the_floor(
    chain: tuple[Node, Node, Node, Node], delay_us: int
) -> None:
    find(
        1000 * delay_us,
        1000,
        lambda: shortest_ns(chain, "--delay-us", str(delay_us)) - shortest_ns(chain),
    )


JITTER_US = 100  # twice that is less than the time between frames: none overtakes


@pytest.mark.parametrize(
    ("shape", "deviation", "magnitude"),
    [
        # Of one delay; of the difference of two: uniform 2 J / 3, normal 2 J / sqrt(pi).
        ("uniform", JITTER_US / math.sqrt(3), 2 * JITTER_US / 3),
        ("normal", JITTER_US / 2, JITTER_US / math.sqrt(math.pi)),
    ],
)
def test_delay_variation_is_that_of_the_set_jitter(
    chain: tuple[Node, Node, Node, Node], shape: str, deviation: float, magnitude: float
) -> None:
    spread_us = JITTER_US if shape == "uniform" else JITTER_US // 2
    seen: dict[str, Any] = {}

    def attempt() -> float:
        _, received, _ = run(
            chain, "--delay-us", "500", "--jitter-us", str(spread_us), "--jitter", shape, rate=2000
        )
        latency = received["latency"]
        seen.update(latency)
        assert latency["ipdv"]["count"] <= 999
        assert abs(latency["ipdv"]["mean_ns"]) <= 1000  # what grows shrinks again
        assert latency["pdv"]["max_ns"] == latency["max_ns"] - latency["min_ns"]
        return float(latency["ipdv"]["mean_magnitude_ns"])

    # 1000 frames: the mean is good to 3 % or so by chance alone (the seed is fixed).
    find(1000 * magnitude, 1000 * magnitude * 0.06, attempt)
    assert seen["stdev_ns"] == pytest.approx(1000 * deviation, rel=0.15)


def test_jitter_makes_frames_overtake_and_loses_none(
    chain: tuple[Node, Node, Node, Node],
) -> None:
    _, received, _ = run(chain, "--delay-us", "2000", "--jitter-us", "1000")
    loss = received["loss"]
    assert loss["lost"] == loss["duplicates"] == 0
    assert loss["reordered"] > FRAMES / 10  # 20 frames lie within the jitter
    assert 1 < loss["max_reorder_extent"] < FRAMES
    assert loss["n_reordered"]["1"] <= loss["reordered"]
    # A frame is overtaken by at most those sent within twice the jitter: 2 ms.
    floor_ns = 2_000_000
    assert 0 < loss["mean_late_offset_ns"] <= loss["max_late_offset_ns"]
    assert loss["mean_late_offset_ns"] < floor_ns
