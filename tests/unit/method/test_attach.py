"""Method `attach` on a network whose times are known."""

from __future__ import annotations

import threading
import time

import pytest

from switchmark.method.attach import FEWEST, STARTS, measure, percentile
from switchmark.model.attaching import AttachTimes
from switchmark.simulation.switch import Behaviour
from tests.unit.method_fakes import run_simulated


class KnownNetwork:
    """A network with set times, which notes how many attachments are in progress."""

    def __init__(self, add_s: float = 0.01, answer_s: float = 0.013) -> None:
        self.add_s, self.answer_s = add_s, answer_s
        self.attached: set[int] = set()
        self.most_at_once = 0
        self._running = 0
        self._mutex = threading.Lock()

    def attach_timed(self, number: int) -> AttachTimes:
        with self._mutex:
            assert number not in self.attached
            self.attached.add(number)
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        time.sleep(0.02)
        with self._mutex:
            self._running -= 1
        return AttachTimes(self.add_s, self.answer_s)

    def detach_timed(self, number: int) -> float:
        self.attached.remove(number)
        return 0.03

    def seconds_to_start(self) -> float:
        return 0.004


@pytest.mark.parametrize("at_once", [1, 8])
def test_as_many_are_in_progress_as_requested(at_once: int) -> None:
    network = KnownNetwork()
    times = measure(network, at_once, 0.001)
    assert network.most_at_once == at_once
    assert not network.attached, "everything was detached again"
    assert len(times.add) == len(times.answer) == len(times.delete) >= FEWEST
    assert len(times.start) == STARTS


def test_figures_are_the_known_times() -> None:
    found = run_simulated("attach", Behaviour(capacity_pps=1e6), attacher=KnownNetwork(), pairs=5,
                          at_once=4, duration_s=0.1)  # fmt: skip
    figures = {one.name: one.value for one in found.figures}
    assert found.headline == "attach p50"
    assert figures["attach p50"] == figures["attach p99"] == 0.013
    assert (figures["ADD p50"], figures["DEL p50"]) == (0.01, 0.03)
    assert figures["first answer after ADD p50"] == pytest.approx(0.003)
    assert figures["start of the programs p50"] == 0.004
    assert found.notes[0] == "10 attachments present, 4 in progress at the same time"


def test_percentiles_have_intervals_by_order_statistics() -> None:
    values = [float(value) for value in range(1, 101)]
    median = percentile(values, 0.5, "m")
    assert (median.value, median.low, median.high, median.count) == (51.0, 40.0, 61.0, 100)
    assert percentile(values, 0.99, "p").high is None, "too few values for an upper bound"
