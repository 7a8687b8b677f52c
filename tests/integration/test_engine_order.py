"""Loss, duplicates and the metrics of RFC 4737 against an independent computation: a receiver reads
frames of a real sender from a pcap file, in an order that this test has made."""

from __future__ import annotations

import itertools
import json
import math
import random
import struct
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.engine_tools import engine_path, needs_engine, renumbered

pytestmark = needs_engine
FRAMES, GROUPS = 1500, 8
PLACE = 46  # offset of the sequence number in a frame


def run(*args: str) -> dict[str, Any]:
    """Return the result of an engine that ends by itself."""
    path = engine_path()
    assert path is not None
    done = subprocess.run(
        [path, *args, "--start", "now"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert result["event"] == "result"
    return result


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Frames of a sender in its order."""
    path = tmp_path_factory.mktemp("sent") / "sent.pcap"
    sent = run(
        "sender", "--port", f"pcap:write={path}", "--rate", f"{FRAMES * 10}", "--burst", "1",
        "--duration", "0.1", "--catch-up-us", "10M",
    )  # fmt: skip
    assert sent["totals"]["tx_offered"] == FRAMES
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        found.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    assert [number_of(frame) for frame in found] == list(range(FRAMES))
    return found


def number_of(frame: bytes) -> int:
    (number,) = struct.unpack_from("!I", frame, PLACE)
    return int(number)


def arrivals(seed: int) -> list[int]:
    """Return numbers in the order of arrival: some lost, some twice, some late by little or by
    much."""
    dice = random.Random(seed)
    keyed = []
    for number in range(FRAMES):
        if dice.random() < (0.0, 0.02, 0.4)[seed % 3]:
            continue
        late = dice.choice((0, 0, 0, 0, 3, 40, 600)) * dice.random() * (seed > 0)
        keyed.append((number + late, number))
        if dice.random() < 0.03:
            keyed.append((number + dice.choice((0, 1, 200)), number))
    return [number for _, number in sorted(keyed)]


@dataclass
class Metrics:
    """RFC 4737 computed literally from the list of all first copies."""

    unique: list[int]
    reordered: list[int]  # positions in the list
    earliest: list[int]  # for each, the position of the earliest higher number
    degrees: list[int]  # for each, the number of higher numbers right before it

    @classmethod
    def of(cls, numbers: list[int]) -> Metrics:
        unique = list(dict.fromkeys(numbers))
        expected, late = -1, []
        for place, number in enumerate(unique):
            if number >= expected:
                expected = number + 1
            else:
                late.append(place)
        earliest = [next(j for j in range(i) if unique[j] > unique[i]) for i in late]
        degrees = []
        for i in late:
            n = 0
            while n < i and unique[i - n - 1] > unique[i]:
                n += 1
            degrees.append(n)
        return cls(unique, late, earliest, degrees)

    def runs(self) -> list[int]:
        """Return numbers of frames in order between reordered frames, and before the first
        (4.6)."""
        before = [-1, *self.reordered]
        return [place - last - 1 for last, place in zip(before, self.reordered, strict=False)]

    def gaps(self) -> list[int]:
        """Return distances between successive discontinuities (4.5)."""
        places = sorted(set(self.earliest))
        return [b - a for a, b in itertools.pairwise(places)]


def mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def seen_by_receiver(numbers: list[int], frames: list[bytes], path: Path, first: int) -> Any:
    """Return the result of a receiver that reads these frames, numbered from `first` on."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for number in numbers:
            frame = renumbered(frames[number], (first + number) & 0xFFFFFFFF)
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
    return run("receiver", "--port", f"pcap:read={path}", "--flow-groups", f"{GROUPS}")


@pytest.mark.parametrize("seed", range(6))
def test_order_metrics_are_those_of_rfc_4737(
    frames: list[bytes], tmp_path: Path, seed: int
) -> None:
    numbers = arrivals(seed)
    first = 0xFFFFFF00 if seed % 2 else 0  # so that the 32 bits overflow
    result = seen_by_receiver(numbers, frames, tmp_path / "seen.pcap", first)
    loss, due = result["loss"], Metrics.of(numbers)
    assert result["reason"] == "replayed"
    assert result["totals"]["rx_frames"] == len(numbers)
    assert result["totals"]["rx_corrupt"] == result["totals"]["rx_stale"] == 0

    span = max(numbers) - min(numbers) + 1
    assert loss["sent"] is None, "the number of sent frames is unknown"
    assert loss["first_sequence"] == first + min(numbers)
    assert loss["last_sequence"] == first + max(numbers)
    assert loss["expected"] == span
    assert loss["received_unique"] == len(due.unique)
    assert loss["lost"] == span - len(due.unique)
    assert loss["duplicates"] == len(numbers) - len(due.unique)
    assert loss["reordered"] == len(due.reordered)
    assert (loss["reordered"] > 0) == (seed > 0)
    assert loss["reordered_ratio"] == pytest.approx(len(due.reordered) / len(due.unique))
    extents = [i - j for i, j in zip(due.reordered, due.earliest, strict=True)]
    assert loss["max_reorder_extent"] == max(extents, default=0)
    assert loss["mean_reorder_extent"] == pytest.approx(mean(extents))
    assert loss["max_n_reordered"] == max(due.degrees, default=0)
    assert loss["n_reordered"] == {
        str(n): sum(degree >= n for degree in due.degrees) for n in (1, 2, 3, 4, 8, 16, 32, 64)
    }
    runs, gaps = due.runs(), due.gaps()
    assert loss["free_runs"]["count"] == len(runs)
    assert loss["free_runs"]["mean_frames"] == pytest.approx(mean(runs))
    assert loss["free_runs"]["max_frames"] == max(runs, default=0)
    spread = math.sqrt(mean([run * run for run in runs]) - mean(runs) ** 2) if runs else 0.0
    assert loss["free_runs"]["stdev_frames"] == pytest.approx(spread, abs=1e-6)
    assert loss["gaps"]["count"] == len(gaps)
    assert loss["gaps"]["mean_frames"] == pytest.approx(mean(gaps))
    assert not loss["extent_is_lower_bound"]
    check_groups(result["flow_groups"], numbers, due)


def check_groups(groups: list[dict[str, int]], numbers: list[int], due: Metrics) -> None:
    """Check every GROUPS-th frame separately; both starts are multiples of GROUPS."""
    copies = Counter(number % GROUPS for number in numbers)
    late = Counter(due.unique[place] % GROUPS for place in due.reordered)
    for group, counts in enumerate(groups):
        unique = sum(number % GROUPS == group for number in due.unique)
        expected = sum(n % GROUPS == group for n in range(min(numbers), max(numbers) + 1))
        assert counts == {
            "expected": expected,
            "received_unique": unique,
            "lost": expected - unique,
            "duplicates": copies[group] - unique,
            "reordered": late[group],
        }


def test_sent_frames_that_never_arrive_are_lost() -> None:
    """No frame arrives at all: only the number of sent frames shows the loss."""
    result = run(
        *("tester", "--port", "null:", "--port", "null:"),
        *("--rate", "10k", "--duration", "0.1", "--catch-up-us", "10M", "--flow-groups", "4"),
    )
    (way,) = result["directions"]
    sent = result["totals"]["tx_offered"]
    assert sent > 500
    loss = way["loss"]
    assert (loss["sent"], loss["expected"], loss["lost"]) == (sent, sent, sent)
    assert loss["received_unique"] == 0
    assert sum(group["lost"] for group in way["flow_groups"]) == sent
