"""Busy cores, from /proc/stat before and after."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from switchmark.host.cores.cpu_time import busy_cores


def test_all_except_waiting_counts_and_guests_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    # user nice system idle iowait irq softirq steal guest guest_nice
    stat.write_text("cpu  100 10 50 900 40 5 5 20 60 6\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    per_s = os.sysconf("SC_CLK_TCK")
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        more = [0.3, 0.1, 0.2, 0.4, 0.2, 0.1, 0.1, 0.2, 0.3, 0.1]
        old = [100, 10, 50, 900, 40, 5, 5, 20, 60, 6]
        ticks = [was + round(share * per_s) for was, share in zip(old, more, strict=True)]
        stat.write_text(f"cpu  {' '.join(map(str, ticks))}\n")

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert busy_cores(0.5, stat) == pytest.approx((0.3 + 0.1 + 0.2 + 0.1 + 0.1 + 0.2) / 0.5)


def used_s() -> float:
    """Return the CPU time of all cores of this machine since boot."""
    ticks = [int(one) for one in Path("/proc/stat").read_text().split()[1:9]]
    return (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK")


def test_busy_cores_are_at_most_the_used_cpu_time() -> None:
    before_s, over_s = used_s(), 0.02
    at_least_s = busy_cores(over_s) * over_s  # it may have taken longer
    assert 0 <= at_least_s <= used_s() - before_s + 1e-6
