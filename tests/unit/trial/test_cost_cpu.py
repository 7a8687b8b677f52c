"""The cost of a trial in CPU time: the arithmetic and the clocks."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from switchmark.host.cores.cpu_time import CpuReading, MachineTime, ThreadTimes, process_cpu_s
from switchmark.switch.support.work import SwitchWork
from switchmark.trial.cost import ApplicationCpu, cost


@pytest.fixture(autouse=True)
def quiet_machine() -> None:
    """Let these tests read the real clocks."""


def reading(
    wall: float, switch: float | None, bench: float, busy: float, softirq: float, stolen: float
) -> CpuReading:
    by_process = None if switch is None else {7: switch}
    return CpuReading(wall, by_process, bench, MachineTime(busy, softirq, stolen))


def used(cpu_s: float, wall_s: float = 4.0, waited_s: float = 0.0) -> ApplicationCpu:
    cpu_ns, wall_ns, waited_ns = (round(value * 1e9) for value in (cpu_s, wall_s, waited_s))
    return ApplicationCpu(wall_ns, cpu_ns, run_delay_ns=waited_ns)


def test_shares_of_everybody() -> None:
    before = reading(100.0, 10.0, 1.0, 50.0, 5.0, 0.5)
    after = reading(105.0, 15.0, 1.25, 62.0, 6.0, 0.75)
    found = cost(before, after, [used(3.0, waited_s=0.4), used(2.0, waited_s=1.0)])
    assert found.switch_cores_used == 1.0
    assert found.applications_cores_used == 1.0
    assert found.softirq_cores_used == pytest.approx(0.2)
    assert found.stolen_cores == pytest.approx(0.05)
    assert found.run_delay_share == 0.25, "of the one that waited most"
    # 12 s busy, of which 5 the switch, 5 the applications, 0.25 the bench: 1.75 s in 5 s
    assert found.others_cores_used == pytest.approx(0.35)


def test_kernel_switch_has_no_separate_cpu_time() -> None:
    found = cost(reading(0, None, 0, 0, 0, 0), reading(2, None, 0, 3, 1, 0), [used(2.0)])
    assert found.switch_cores_used is None
    assert found.others_cores_used == 0.5


def test_rounding_makes_nobody_negative() -> None:
    """With ticks of 10 ms, the time of the trial can seem longer than that of the machine."""
    found = cost(reading(0, 5.0, 0, 0, 0, 0), reading(1, 5.9, 0, 0.9, 0, 0), [used(0.1)])
    assert found.others_cores_used == 0.0


def test_a_switch_that_died_meanwhile() -> None:
    found = cost(reading(0, 5.0, 0, 0, 0, 0), reading(1, 0.0, 0, 0.9, 0, 0), [])
    assert found.switch_cores_used == 0.0


def test_threads_that_wait_at_once_are_no_more_than_all_the_time() -> None:
    found = cost(reading(0, None, 0, 0, 0, 0), reading(1, None, 0, 0, 0, 0), [used(1, 2, 3)])
    assert found.run_delay_share == 1.0


def test_an_engine_that_ran_no_time() -> None:
    found = cost(reading(0, None, 0, 0, 0, 0), reading(1, None, 0, 0, 0, 0), [used(0, wall_s=0)])
    assert found.run_delay_share == 0.0


def test_each_frame_costs_all_that_was_used() -> None:
    """4 s in all for 2 million frames: 2 us each, of which the wire alone takes 1.5."""
    work = SwitchWork(busy_cycles=1_000_000, idle_cycles=3_000_000, source="the switch")
    found = cost(
        reading(0, 0.0, 0, 0, 0, 0),
        reading(4, 2.0, 0, 4, 0, 0),
        [used(2.0)],
        frames=2_000_000,
        wire_ns_per_frame=1500.0,
        work=work,
    )
    assert found.ns_per_frame == pytest.approx(2000)
    assert found.beyond_wire_ns_per_frame == pytest.approx(500)
    assert found.switch_ns_per_frame == pytest.approx(1000)
    assert found.mpps_per_core == pytest.approx(0.5)
    assert found.switch_busy_share == 0.25
    assert found.switch_useful_ns_per_frame == pytest.approx(250), "a quarter of it was useful"
    assert found.switch_busy_cycles_per_frame == 0.5


def test_without_frames_there_is_no_cost_of_one() -> None:
    found = cost(reading(0, None, 0, 0, 0, 0), reading(1, None, 0, 1, 0, 0), [used(1)])
    assert found.ns_per_frame is None and found.mpps_per_core is None


def test_softirqs_are_counted_by_core() -> None:
    before = MachineTime(0, 1.0, 0, {0: 0.5, 1: 0.5})
    after = MachineTime(0, 3.0, 0, {0: 0.5, 1: 2.5})
    found = cost(CpuReading(0, None, 0, before, 0.0), CpuReading(4, None, 0, after, 0.4), [])
    assert found.softirq_by_core == {"0": 0.0, "1": 0.5}
    assert found.ksoftirqd_cores_used == pytest.approx(0.1)


def test_time_of_unseen_softirq_threads_is_unknown() -> None:
    """In a process namespace they are invisible: 0 would be an invented figure."""
    readings = (
        CpuReading(0, None, 0, MachineTime(0, 1, 0)),
        CpuReading(4, None, 0, MachineTime(0, 3, 0)),
    )
    assert cost(*readings, []).ksoftirqd_cores_used is None


def test_a_switch_that_was_restarted_counts_both() -> None:
    before = CpuReading(0, {7: 5.0}, 0, MachineTime(0, 0, 0))
    after = CpuReading(2, {8: 1.0}, 0, MachineTime(2, 0, 0))
    assert cost(before, after, []).switch_cores_used == 0.5, "of the first nothing is known"


SPIN = """
import sys, threading, time
def spin():
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
thread = threading.Thread(target=spin)
thread.start()
thread.join()
print(time.process_time(), flush=True)
sys.stdin.readline()
print(time.process_time(), flush=True)
sys.stdin.read()
"""


def test_a_process_is_counted_with_threads_that_have_ended() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdin is not None
    before = float(child.stdout.readline())
    found = process_cpu_s(child.pid)
    print(file=child.stdin, flush=True)
    after = float(child.stdout.readline())
    assert 0.2 < before <= found <= after
    child.communicate()
    assert process_cpu_s(child.pid) == 0.0, "gone"


def test_readings_go_forward() -> None:
    before = CpuReading.take([os.getpid()])
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    after = CpuReading.take([os.getpid()])
    assert before.switch_s is not None and after.switch_s is not None
    pid = os.getpid()
    assert after.switch_s[pid] - before.switch_s[pid] >= 0.05
    assert after.bench_s - before.bench_s >= 0.05 and after.wall_s > before.wall_s
    assert after.machine.busy_s >= before.machine.busy_s > 0
    if before.ksoftirqd_s is not None:  # it is None in a process namespace
        assert after.ksoftirqd_s is not None and after.ksoftirqd_s >= before.ksoftirqd_s >= 0
    assert len(after.machine.softirq_by_core_s) == os.cpu_count()
    whole = sum(after.machine.softirq_by_core_s.values())
    assert whole == pytest.approx(after.machine.softirq_s, abs=0.1), "the cores sum to the whole"
    assert CpuReading.take([]).switch_s is None


def test_only_threads_that_poll_are_kept_waiting() -> None:
    before = ThreadTimes(10.0, {1: (5.0, 1.0), 2: (0.0, 0.0), 3: (1.0, 1.0)})
    after = ThreadTimes(12.0, {1: (6.2, 1.8), 2: (0.1, 0.7), 3: (3.0, 1.0), 4: (9.0, 9.0)})
    # 1 polls and waited 0.8 s; 2 sleeps mostly; 3 had its core; 4 was not there before.
    assert before.kept_waiting_s(after) == pytest.approx(0.8)
    assert before.kept_waiting_s(ThreadTimes(12.0, {})) == 0.0


def test_times_of_bench_threads() -> None:
    times = ThreadTimes.of([os.getpid(), 0])
    assert times.by_thread[os.getpid()][0] > 0
