"""The cycles that Open vSwitch reports."""

from __future__ import annotations

from switchmark.switch.support.work import SwitchWork, parse_pmd_stats

STATS = """\
pmd thread numa_id 0 core_id 1:
  packets received: 1000
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  emc hits: 990
  idle cycles: 3000000 (75.00%)
  processing cycles: 1000000 (25.00%)
  avg cycles per packet: 4000.00 (4000000/1000)
  avg processing cycles per packet: 1000.00 (1000000/1000)
pmd thread numa_id 0 core_id 2:
  packets received: 0
  idle cycles: 500000 (100.00%)
  processing cycles: 0 (0.00%)
main thread:
  packets received: 7
  idle cycles: 9
  processing cycles: 9
"""


def test_polling_threads_are_summed_and_the_main_thread_is_not() -> None:
    assert parse_pmd_stats(STATS) == SwitchWork(1_000_000, 3_500_000, "pmd-stats-show")
    assert parse_pmd_stats("main thread:\n  packets received: 0\n") is None


def test_work_since_an_earlier_reading() -> None:
    found = SwitchWork(10, 100, "x").since(SwitchWork(4, 30, "x"))
    assert (found.busy_cycles, found.idle_cycles) == (6, 70)
    assert SwitchWork(1, 1, "x").since(SwitchWork(4, 30, "x")).busy_cycles == 0, "it was restarted"
