"""DPDK programs on pages of 4 KiB: whole trials, and the limit of hugepages in a control group."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchmark.host import hugepages
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.switch.registry import SWITCHES
from tests.integration.dpdk_rig import hugepages_free
from tests.integration.machine import needs_root
from tests.integration.main_job import Bench
from tests.integration.test_engine_outage import group_of, hugetlb_cgroup
from tests.integration.test_switch_trials import measured

pytestmark = [pytest.mark.integration, needs_root]

ON_SMALL_PAGES = sorted(
    name for name, make in SWITCHES.items() if len(make().capabilities.page_sizes) > 1
)


@pytest.mark.parametrize("switch", ON_SMALL_PAGES)
def test_each_switch_forwards_on_small_pages(bench: Bench, switch: str) -> None:
    record = measured(bench, switch, "netns", "page_size=4KiB")
    assert record.page_size_kib == 4
    assert record.reconciliation is not None and record.reconciliation.agrees
    assert int(record.switch_details["memory_mb"]) > 0
    assert "hugepages_mb" not in record.switch_details
    engines = [engine for engine in record.engines if engine.ready]
    assert {engine.ready["page_size_kib"] for engine in engines} == {4}


@pytest.mark.parametrize("more", [("packet_size=9000",), ("pairs=2", "switch_cores=1")])
def test_ovs_dpdk_has_enough_memory_on_small_pages(bench: Bench, more: tuple[str, ...]) -> None:
    """Its buffer pools are made at the first attempt; a second one loses peers."""
    record = measured(bench, "ovs-dpdk", "netns", "page_size=4KiB", *more)
    assert "insufficient" not in record.switch_log.lower()


@pytest.mark.parametrize("environment", ["lxc", "docker"])
def test_applications_in_containers_are_on_small_pages(bench: Bench, environment: str) -> None:
    record = measured(bench, "basicfwd", environment, "page_size=4KiB")
    assert record.page_size_kib == 4


def test_instrument_on_small_pages(bench: Bench) -> None:
    found = INSTRUMENTS["testpmd"]().availability()
    if not found.available:
        pytest.skip(str(found.refusal))
    more = (
        "generator=testpmd",
        "rate=max",
        "idle=auto",
        "interval=200ms",
        "page_size=4KiB",
        "duration=2s",
    )
    record = measured(bench, "basicfwd", "netns", *more)
    assert record.page_size_kib == 4
    assert all("--no-huge" in engine.args for engine in record.engines)


@pytest.mark.skipif(hugetlb_cgroup() is None, reason="no hugetlb controller (cgroup v1) here")
@pytest.mark.skipif(hugepages_free() < 32, reason="fewer than 32 free hugepages of 2 MB")
def test_pages_beyond_the_limit_of_a_group_do_not_count() -> None:
    """The kernel has free pages; the limit shows when one page too many is accessed."""
    parent = hugetlb_cgroup()
    assert parent is not None
    group = parent / f"switchmark-pages-{os.getpid()}"
    own_group = group_of(Path("/proc/self/cgroup").read_text())
    group.mkdir()
    try:
        (group / "hugetlb.2MB.limit_in_bytes").write_text(str(16 << 20))
        (group / "tasks").write_text(str(os.getpid()))
        assert hugepages.count_touchable(2048, 20) == 8
        assert [pool.free for pool in hugepages.obtainable([40]) if pool.size_kb == 2048] == [8]
    finally:
        (parent / own_group / "tasks").write_text(str(os.getpid()))
        group.rmdir()
