"""A switch that the kernel may move: its threads, its placement, and its limits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from switchmark.errors import TrialFailed, UnavailableError, UsageError
from switchmark.host.cores.affinity import check_unpinned, count_migrations, unpin
from switchmark.host.cores.placement import Demand, core_map, place
from switchmark.host.facts import Cpu
from switchmark.host.kernel.procfs import threads_of
from tests.unit.campaign.test_expand_refusals import trials_of

CPUS = [Cpu(number, (0, number), number // 4, isolated=number == 3) for number in range(8)]
PINNED = Demand((("tx0", "rx0"),), polling_switch=True, in_kernel_switch=False, switch_cores=2)
FREE = replace(PINNED, unpinned_switch=True)


def test_unpinned_switch_may_move_over_non_isolated_cores() -> None:
    pinned, free = (place(CPUS, set(range(8)), one) for one in (PINNED, FREE))
    assert free.switch_free_cores == [0, 1, 2, 4, 5, 6, 7]
    assert (free.switch_cores, free.application_cores) == (
        pinned.switch_cores, pinned.application_cores,
    )  # fmt: skip
    assert pinned.switch_free_cores == [] and "not pinned" not in pinned.reason
    assert "polling switch not pinned: it starts on cores" in free.reason
    begun = [core for core, who in core_map(free).items() if "unpinned-switch" in who]
    assert begun == sorted(free.switch_cores)
    same = place(CPUS, set(range(8)), replace(FREE, numa="same"))
    assert same.switch_free_cores == [0, 1, 2]


def test_unpinned_switch_needs_more_than_one_core() -> None:
    demand = replace(FREE, switch_cores=1)
    with pytest.raises(UnavailableError, match="switch_cpus: any: this process may use 1 CPU, so"):
        place(CPUS[:1], {0}, demand)
    isolated = [replace(cpu, isolated=True) for cpu in CPUS]
    with pytest.raises(UnavailableError, match="0 CPUs that are not isolated"):
        place(isolated, set(range(8)), demand)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("switch: linux-bridge", "on the senders' cores; use switch_cpus: auto"),
        ("switch: ovs-dpdk\nmain_cpu: 0", "the switch and its main thread; use main_cpu: auto"),
        ("switch: ovs-dpdk\nsmt: siblings", "use smt: auto or avoid"),
        ("switch: ovs-dpdk\nnuma: other", "use numa: auto or same"),
        ("switch: ovs-dpdk\nlocation: remote", "leave location: remote out"),
        ("switch: ovs-dpdk\nneighbour: cpu\nneighbour_cpus: switch", "use neighbour_cpus: any"),
    ],
)
def test_option_that_pins_threads_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        trials_of(f"{text}\nswitch_cpus: any\n")
    assert {one.switch_cpus for one in trials_of("switch: ovs-dpdk\nswitch_cpus: [auto, any]")} == {
        "auto", "any",
    }  # fmt: skip


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that is pinned to one core."""
    with subprocess.Popen(["sleep", "600"]) as process:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        yield process.pid
        process.kill()


def test_threads_are_unpinned_and_repinned_threads_are_found(sleeper: int) -> None:
    cores = os.sched_getaffinity(0)
    unpin([sleeper], cores)
    assert os.sched_getaffinity(sleeper) == cores and threads_of([sleeper]) == {sleeper}
    check_unpinned([sleeper], cores)
    assert (count_migrations([sleeper]) or 0) >= 0
    if len(cores) > 1:
        os.sched_setaffinity(sleeper, {min(cores)})
        with pytest.raises(TrialFailed, match=f"has pinned a thread to core {min(cores)} "):
            check_unpinned([sleeper], cores)


def test_processes_that_have_ended_have_no_threads() -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    unpin([ended.pid], {0})
    check_unpinned([ended.pid], {0})
    assert threads_of([ended.pid]) == set() and count_migrations([ended.pid]) is None
