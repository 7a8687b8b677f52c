"""Trials are placed within a CPU quota, or refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.experiment import prepare as preparing
from switchmark.experiment import steps
from switchmark.experiment.prepare import Prepared, prepare
from switchmark.host import facts, place
from switchmark.host.cores.placement import Demand, needed_cpus, place_within
from switchmark.host.cores.placement import place as place_freely
from switchmark.host.facts import Cpu
from switchmark.model.capabilities import Availability, available
from switchmark.model.choices import Idle
from switchmark.record import Placement
from switchmark.switch import ovs_dpdk
from switchmark.trial import place_needs
from tests.unit.conftest import limits

CPUS = [Cpu(number, (0, number), 0) for number in range(8)]
USABLE = range(8)
POLLING = Demand((("a0", "b0"),), polling_switch=True, in_kernel_switch=False)
KERNEL = Demand((("a0", "b0"),), polling_switch=False, in_kernel_switch=True)
THERE = installed()


def used(placement: Placement) -> set[int]:
    application_cores = [core for cores in placement.application_cores.values() for core in cores]
    return {*placement.switch_cores, *application_cores, *placement.bench_cores}


@pytest.mark.parametrize("demand", [POLLING, KERNEL])
@pytest.mark.parametrize("quota", [None, 3.25, 4.0, 64.0])
def test_sufficient_quota_changes_nothing(demand: Demand, quota: float | None) -> None:
    assert place_within(CPUS, USABLE, demand, quota) == place_freely(CPUS, USABLE, demand)


@pytest.mark.parametrize(
    ("quota", "count", "idle"), [(3.0, 3, "poll"), (2.9, 2, "baton"), (2.0, 2, "baton")]
)
def test_a_polling_switch_gets_fewer_cores_and_fits(quota: float, count: int, idle: str) -> None:
    placed = place_within(CPUS, USABLE, POLLING, quota)
    assert len(placed.only_cores) == count and used(placed) <= set(placed.only_cores)
    assert needed_cpus(placed) <= quota
    assert placed.idle == idle and placed.oversubscribed == (idle == "baton")
    assert f"since the CPU quota is {quota:g} CPUs" in placed.reason


def test_applications_in_turns_fit_on_one_cpu() -> None:
    placed = place_within(CPUS, USABLE, KERNEL, 1.5)
    assert len(placed.only_cores) == 1 and used(placed) == set(placed.only_cores)
    assert placed.idle == "baton" and placed.oversubscribed and needed_cpus(placed) == 1


def test_named_cores_are_kept() -> None:
    named = Demand(
        (("a0", "b0"),), True, False, switch_cpus=(6,), application_cpus=(4,), idle=Idle.AUTO
    )
    placed = place_within(CPUS, USABLE, named, 2.0)
    assert placed.only_cores == [4, 6]
    assert placed.switch_cores == [6] and used(placed) == {4, 6}


@pytest.mark.parametrize("quota", [0.5, 3.0])
def test_demand_beyond_the_quota_is_placed_as_without_quota(quota: float) -> None:
    wide = Demand((("a0", "b0"),), polling_switch=True, in_kernel_switch=False, switch_cores=4)
    placed = place_within(CPUS, USABLE, wide, quota)
    assert placed == place_freely(CPUS, USABLE, wide) and needed_cpus(placed) > quota


def test_excluded_smt_siblings_stay_unused() -> None:
    cpus = [Cpu(number, (0, number % 4), 0) for number in range(8)]
    apart = Demand((("a0", "b0"),), polling_switch=True, in_kernel_switch=False, smt="avoid")
    placed = place_within(cpus, USABLE, apart, 3.0)
    assert {cpu % 4 for cpu in placed.only_cores} == {0, 1, 2}


@pytest.fixture(autouse=True)
def everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "read_cpus", lambda: CPUS)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for name, value in (("find_engine", lambda: Path("/engine")), ("check_available", print)):
        monkeypatch.setattr(preparing, name, value)
    for name in ("refused_command_lines", "too_little_memory"):
        monkeypatch.setattr(preparing, name, lambda *_: [])
    for name in ("leave_out_unavailable", "_leave_out_absent"):
        monkeypatch.setattr(preparing, name, keep_all)
    monkeypatch.setattr(steps, "_instrument_availabilities", lambda _: {})
    # A place with hugepages, also if the tests run in a container, which cannot use them.
    monkeypatch.setattr(place, "can", lambda _: available("yes"))
    monkeypatch.setattr(preparing, "choose_pages", lambda planned: (planned, None))


def keep_all(trials: object, *more: object) -> tuple[object, ...]:
    """Leave out nothing."""
    return (trials, [], []) if more else (trials, [])


def prepared(monkeypatch: pytest.MonkeyPatch, text: str, **changes: object) -> Prepared:
    monkeypatch.setattr(place, "limits", lambda: limits(**changes))
    return prepare(load_text(text, "unit.yaml", THERE.known), THERE)


BOTH = "switch: [linux-bridge, basicfwd]\nmixed_connect_modes: true\nskip_unavailable: true\n"
MIB = 1 << 20
SMALL = {"memory_bytes": 512 * MIB, "memory_left_bytes": 10 * MIB}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cpu_quota": 2.0}, ""),
        ({"cpu_quota": 0.5}, "needs at least 1 CPU, and the CPU quota is 0.5; raise the quota"),
        ({"cpu_quota": 1.5}, r"the switch polls and .* has a CPU quota of 1.5; allow 2 CPUs"),
        ({"allowed_cpus": (3,)}, r"the switch polls and .* has 1 CPU; allow 2 CPUs"),
        (SMALL, r"needs 32 MiB of memory, and 10 MiB are left .* 512 MiB\); raise the limit"),
        ({"tasks": 20, "tasks_left": 8}, "needs 9 processes and threads, and 8 of the limit of 20"),
        ({"open_files": 40}, "needs 64 open files in one program, and the limit is 40; raise it"),
        ({"available_bytes": 31 * MIB}, "needs 32 MiB of memory, and 31 MiB are available on this"),
        ({"tasks": 20, "tasks_left": 9, "open_files": 64, "available_bytes": 32 * MIB}, ""),
        ({"memory_bytes": 40 * MIB, "memory_left_bytes": 32 * MIB}, ""),
    ],
)
def test_polling_trial_beyond_the_quota_is_refused(
    changes: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = prepared(monkeypatch, "switch: basicfwd", **changes)
    if not message:
        assert found.refused == []
        return
    assert len(found.refused) <= 2, "once for the trial and its baseline"
    assert any(re.search(message, line) for line in found.refused), found.refused


@pytest.mark.parametrize(("may_lock", "limit_mb"), [(True, 8), (False, 8), (False, 16)])
def test_af_xdp_beyond_the_locked_memory_is_refused(
    may_lock: bool, limit_mb: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_needs, "has_capability", lambda _: may_lock)
    text = "switch: linux-bridge\nio: af-xdp\nenvironment: netns\n"
    found = prepared(monkeypatch, text, locked_memory_bytes=limit_mb * MIB)
    message = "needs 16 MiB of locked memory in one program, and the limit is 8192 KiB; raise it"
    is_refused = not may_lock and limit_mb == 8
    assert any(message in line for line in found.refused) == is_refused
    assert bool(found.refused) == is_refused


def test_with_one_cpu_switches_that_do_not_poll_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = prepared(monkeypatch, BOTH, cpu_quota=1.0)
    measured = {step.plan.trial.switch for step in found.steps}
    assert found.refused == [] and measured == {"direct", "linux-bridge"}
    (line,) = found.left_out
    assert "V=basicfwd" in line and "the switch polls" in line
    for step in found.steps:
        assert step.plan.placement.oversubscribed and len(step.plan.placement.only_cores) == 1
        assert step.baseline is not None or step.is_baseline


@pytest.mark.parametrize(("switch", "mib"), [("basicfwd", 49), ("ovs-dpdk", 214), ("testpmd", 381)])
def test_buffers_on_small_pages_count_as_memory(
    switch: str, mib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the written part counts, which is less than the programs reserve."""
    monkeypatch.setattr(ovs_dpdk, "memory_nodes", lambda: 1)
    text = f"switch: {switch}\nenvironment: netns\npage_size: "
    for size, left_mib, fits in (("4KiB", mib, True), ("4KiB", mib - 1, False), ("huge", 92, True)):
        changes = {"memory_bytes": 512 * MIB, "memory_left_bytes": left_mib * MIB}
        found = prepared(monkeypatch, f"{text}{size}\n", **changes)
        assert (found.refused == []) == fits, found.refused
    assert f"needs {mib} MiB of memory, and {mib - 1} MiB are left" in "".join(
        prepared(
            monkeypatch, f"{text}4KiB\n", memory_bytes=512 * MIB, memory_left_bytes=(mib - 1) * MIB
        ).refused
    )


def test_more_switch_cores_than_the_quota_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepared(monkeypatch, "switch: ovs-dpdk\nswitch_cores: 3\n", cpu_quota=2.5)
    assert any("needs 5.25 CPUs at a time, and" in line for line in found.refused), found.refused


def test_non_polling_switches_are_chosen_with_one_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preparing, "availability_for", lambda *_: Availability(True))
    text = (
        "switch: [basicfwd, linux-bridge, testpmd, tc-redirect]\nfirst_available: {switch: 2}\n"
        "connect_mode: cross-connect\nenvironment: netns\n"
    )
    for quota, chosen in (
        (2.0, {"basicfwd", "linux-bridge"}),
        (1.0, {"linux-bridge", "tc-redirect"}),
    ):
        found = prepared(monkeypatch, text, cpu_quota=quota)
        assert {step.plan.trial.switch for step in found.steps} == chosen | {"direct"}
    assert found.instead is not None and "the switch polls" in found.instead


def test_no_fitting_trial_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepared(monkeypatch, BOTH, cpu_quota=0.25)
    assert found.refused and all("CPU quota is 0.25" in line for line in found.refused)
