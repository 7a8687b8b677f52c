"""Samples of any number have true lengths and lose nothing, and memory does not grow.

The result also contains cycles, stolen time, and hardware counters or the reason without them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.engine_tools import Event, engine, needs_engine

pytestmark = [pytest.mark.alone, *needs_engine]

SAMPLES = 3600
COUNTERS = ("tx_offered", "tx_intended", "tx_bytes", "tx_polls", "useful_ticks", "idle_ticks")


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def check_sums(intervals: list[Event], result: Event, started_ns: int) -> None:
    """Check that samples follow each other without a gap and add up to the totals."""
    end_ns = started_ns
    for index, sample in enumerate(intervals):
        assert sample["index"] == index
        assert sample["t_ns"] - sample["duration_ns"] == end_ns
        end_ns = sample["t_ns"]
    for name in COUNTERS:
        assert sum(sample[name] for sample in intervals) == result["totals"][name], name
    whole_ns = sum(sample["duration_ns"] for sample in intervals)
    assert whole_ns >= result["duration_ns"]


def test_thousands_of_samples_add_up_and_take_no_memory() -> None:
    """A sample each millisecond, as many as an hour has seconds; the memory stays the same."""
    with engine("sender", "--port", "null:", "--rate", "1M", "--idle", "sleep") as running:
        running.tell("start interval=0.001")
        running.wait("interval", 200)
        early_kib = resident_kib(running.process.pid)
        running.wait("interval", SAMPLES, timeout_s=300)
        later_kib = resident_kib(running.process.pid)
        result, code = running.finish("stop")
        assert code == 0
    samples = running.all("interval")
    # On a busy machine a sample may stand for several; each contains its length.
    assert len(samples) >= SAMPLES
    assert all(sample["duration_ns"] > 0 for sample in samples)
    check_sums(samples, result, running.wait("started")["t_ns"])
    assert later_kib - early_kib <= 256


def test_result_contains_cycles_and_stolen_time() -> None:
    with engine("sender", "--port", "null:", "--core", "0", "--hardware-counters") as running:
        running.tell("start duration=0.3")
        result, code = running.finish("wait")
        assert code == 0
        hz = running.wait("ready")["tsc_hz"]
    cycles, cpu, hardware = result["cycles"], result["cpu"], result["hardware"]
    assert cycles["frames"] == result["totals"]["tx_offered"] > 0
    spent_s = (cycles["useful_ticks"] + cycles["idle_ticks"]) / hz
    # A busy machine may delay the start of the loop; once it runs, no time is lost.
    assert 0 < spent_s <= 1.02 * result["duration_ns"] / 1e9
    assert cycles["useful_share"] > 0.9  # no port refuses a frame
    assert cycles["ticks_per_frame"] == pytest.approx(cycles["useful_ticks"] / cycles["frames"])
    assert cpu["stolen_ns"] >= 0
    assert cpu["stolen_own_cores_ns"] >= 0
    for name in ("cycles", "instructions", "branch_misses", "cache_misses", "dtlb_misses"):
        assert hardware[name] is not None or hardware["reason"]
    if hardware["instructions"] is not None:  # at least ten instructions a frame
        assert 5 < hardware["instructions"] / cycles["frames"] < 500


def test_an_idle_receiver_spends_its_cycles_idle() -> None:
    with engine("receiver", "--port", "null:") as running:
        running.tell("start duration=0.2")
        result, code = running.finish("wait")
        assert code == 0
    cycles = result["cycles"]
    assert cycles["frames"] == cycles["useful_ticks"] == 0
    assert cycles["idle_ticks"] > 0
    assert cycles["ticks_per_frame"] is None
    assert result["hardware"] is None  # not requested
    assert result["cpu"]["stolen_own_cores_ns"] is None  # not pinned
