"""The pages of DPDK memory: the choice for a run, and how each program is started with them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.engine.arguments import engine_args
from switchmark.errors import TrialFailed, UnavailableError, UsageError
from switchmark.experiment import steps as planning
from switchmark.experiment.calibration import point_of
from switchmark.experiment.pages import check_pages, choose_pages, with_such_pages
from switchmark.experiment.steps import Step, plan_steps
from switchmark.host import hugepages, place
from switchmark.host.facts import Cpu
from switchmark.host.host import Session
from switchmark.host.hugepages import HugepagePool
from switchmark.host.place import Facility
from switchmark.instrument.support.base import Station
from switchmark.instrument.support.dpdk_ports import eal_memory
from switchmark.model.capabilities import Availability, unavailable
from switchmark.model.node import NodePort
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.results.run_directory import open_run
from switchmark.switch import bess, fastclick, ovs_dpdk, t4p4s, testpmd, vpp
from switchmark.switch.support import vpp_commands
from switchmark.switch.support.pages import WithPages, on_small_pages
from switchmark.trial import page_size
from switchmark.trial.page_size import choose, planned_kib, used_kib
from tests.unit.records import synthetic_record, write_run
from tests.unit.switch_programs import PORTS

THERE = installed()
DPDK = "switch: basicfwd\n"
MANY = HugepagePool(2048, 2000, 2000)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[HugepagePool]:
    """Eight cores, and hugepages that are all available."""
    found = [MANY]
    cpus = [Cpu(number, (0, number), 0) for number in range(8)]
    monkeypatch.setattr(planning, "read_cpus", lambda: cpus)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(place, "missing", lambda *_: None)
    monkeypatch.setattr(hugepages, "pools", lambda: tuple(found))
    monkeypatch.setattr(hugepages, "count_touchable", lambda _size_kb, wanted: wanted)
    return found


def steps_of(text: str) -> list[Step]:
    return plan_steps(load_text(text, "unit.yaml", THERE.known), THERE)


def sizes(steps: list[Step]) -> set[int | None]:
    return {planned_kib(step.plan) for step in steps}


def test_hugepages_are_used_if_available() -> None:
    steps, pages = choose_pages(steps_of(DPDK))
    assert pages is not None and not pages.is_small and sizes(steps) == {2048}
    assert pages.reason.startswith(
        "a trial takes 256 MiB of hugepages at most, and 3600 MiB may be used (90%"
    )


@pytest.mark.parametrize(
    ("switch", "facility"), [("bess", Facility.HUGETLBFS), ("vpp", Facility.LOCKED_MEMORY)]
)
def test_switch_that_may_not_use_hugepages_has_small_pages(
    monkeypatch: pytest.MonkeyPatch, switch: str, facility: Facility
) -> None:
    """With all other switches of the run; explicit hugepages are refused."""

    def missing(*facilities: Facility) -> Availability | None:
        return unavailable("not here", remedy="use sudo") if facility in facilities else None

    monkeypatch.setattr(place, "missing", missing)
    both = f"switch: [basicfwd, {switch}]\nmixed_connect_modes: true\n"
    steps, pages = choose_pages(steps_of(both))
    assert pages is not None and pages.is_small and sizes(steps) == {4}
    assert pages.reason.startswith("not here")
    steps, pages = choose_pages(steps_of(DPDK))
    assert pages is not None and not pages.is_small
    text = f"{both}page_size: huge\n"
    found = load_text(text, "unit.yaml", THERE.known)
    problems = with_such_pages(found, plan_steps(found, THERE), None)[2]
    assert problems == ["unit: page_size huge: not here; use sudo; or use page_size: auto"]


def test_run_has_one_page_size(machine: list[HugepagePool]) -> None:
    """The pages are enough for the first switch, but not for the second."""
    machine[0] = HugepagePool(2048, 200, 150)
    both = "switch: [basicfwd, ovs-dpdk]\nmixed_connect_modes: true\n"
    steps, pages = choose_pages(steps_of(both))
    assert pages is not None and pages.is_small and sizes(steps) == {4}
    assert "needs 310 MiB of hugepages in 3 processes, 270 MiB are free" in pages.reason
    steps, pages = choose_pages(steps_of(DPDK))
    assert pages is not None and not pages.is_small


def test_limit_that_only_shows_at_use_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hugepages, "count_touchable", lambda _size_kb, _wanted: 10)
    steps, pages = choose_pages(steps_of(DPDK))
    assert pages is not None and pages.is_small and sizes(steps) == {4}
    assert "20 MiB are free" in pages.reason


@pytest.mark.parametrize("text", ["switch: linux-bridge\n", f"{DPDK}page_size: huge\n"])
def test_no_page_size_is_chosen_without_need(text: str) -> None:
    assert choose([step.plan for step in steps_of(text)]) is None


def test_refused_calls_of_memory_policy_lead_to_small_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a container without SYS_NICE, hugepages can be mapped, but not used."""
    problem = unavailable("this container cannot", remedy="docker run --cap-add SYS_NICE")
    monkeypatch.setattr(place, "missing", lambda *_: problem)
    steps, pages = choose_pages(steps_of(DPDK))
    assert pages is not None and pages.is_small and sizes(steps) == {4}
    assert pages.reason == "this container cannot (remedy: docker run --cap-add SYS_NICE)"


def test_unusable_hugepages_are_refused_before_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = unavailable("this container cannot", remedy="docker run --cap-add SYS_NICE")
    monkeypatch.setattr(place, "missing", lambda *_: problem)
    for size, count in (("huge", 1), ("4KiB", 0), ("auto", 0)):
        campaign = load_text(f"{DPDK}page_size: {size}\n", "unit.yaml", THERE.known)
        steps, pages = choose_pages(plan_steps(campaign, THERE))
        _, _, refused = with_such_pages(campaign, steps, pages)
        assert len(refused) == count
    campaign = load_text(f"{DPDK}page_size: huge\n", "unit.yaml", THERE.known)
    (line,) = with_such_pages(campaign, plan_steps(campaign, THERE), None)[2]
    assert "page_size huge: this container cannot; docker run --cap-add SYS_NICE; or use" in line


@pytest.mark.parametrize(("free", "count"), [(100, 1), (0, 0)])
def test_free_hugepages_that_cannot_be_mapped_are_refused(
    monkeypatch: pytest.MonkeyPatch, machine: list[HugepagePool], free: int, count: int
) -> None:
    """A control group can refuse them, as in a pod without a limit of hugepages. If no page is
    free, the start is refused for another reason."""

    def missing(*facilities: Facility) -> Availability | None:
        return unavailable("not here") if Facility.HUGEPAGES in facilities else None

    monkeypatch.setattr(place, "missing", missing)
    machine[0] = HugepagePool(2048, 100, free)
    campaign = load_text(f"{DPDK}page_size: huge\n", "unit.yaml", THERE.known)
    refused = with_such_pages(campaign, plan_steps(campaign, THERE), None)[2]
    assert refused == ["unit: page_size huge: not here; or use page_size: auto"] * count


def test_trials_with_a_set_size_keep_it(machine: list[HugepagePool]) -> None:
    machine[0] = HugepagePool(2048, 0, 0)
    planned = steps_of(f"{DPDK}page_size: [huge, 4KiB]\n")
    steps, pages = choose_pages(planned)
    assert pages is None
    found = {step.plan.trial.page_size: planned_kib(step.plan) for step in steps}
    assert found == {"huge": 2048, "4KiB": 4}


def test_switches_without_dpdk_memory_have_no_page_size() -> None:
    steps, _ = choose_pages(steps_of("switch: linux-bridge\npage_size: 4KiB\n"))
    assert sizes(steps) == {None}


def test_page_sizes_are_separate_points_of_baselines() -> None:
    trials = [step.plan for step in steps_of(f"{DPDK}page_size: [huge, 4KiB]\n")]
    assert len({str(point_of(plan)) for plan in trials}) == 2


def test_snabb_is_left_out_on_small_pages(
    machine: list[HugepagePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine[0] = HugepagePool(2048, 10, 10)
    text = "switch: [snabb, basicfwd]\nconnect_mode: cross-connect\n"
    for more, count in (("", 2), ("skip_unavailable: true\n", 1)):
        campaign = load_text(text + more, "unit.yaml", THERE.known)
        steps, pages = choose_pages(plan_steps(campaign, THERE))
        steps, left_out, refused = with_such_pages(campaign, steps, pages)
        (arguments,) = left_out or refused
        assert "snabb: works in hugepages only: needs " in arguments
        assert bool(refused) == (count == 2)
        switches = {step.plan.trial.switch for step in steps if not step.is_baseline}
        assert len(switches) == count
    with pytest.raises(UsageError, match="snabb works in hugepages only, not with page_size 4KiB"):
        plan_steps(load_text("switch: snabb\npage_size: 4KiB\n", "a.yaml", THERE.known), THERE)


def test_engines_and_switch_get_the_page_size() -> None:
    steps = steps_of(f"{DPDK}page_size: [huge, 4KiB]\n")
    for step in steps:
        plan = step.plan
        port = replace(plan.specs()[0].port, socket_inside="/run/s")
        arguments = engine_args(plan.trial, port, "sender", 0, 0, "poll")
        small = plan.trial.page_size == "4KiB"
        assert ("--dpdk-pages" in arguments) == small
        if isinstance(plan.switch, WithPages):
            assert plan.switch.small_pages == small


class FakeEngine:
    """An engine that has reported its page size."""

    in_guest = False

    def __init__(self, page_size_kib: int | None) -> None:
        self.page_size_kib = page_size_kib


def test_record_has_the_page_size_of_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_size, "_kernel_page_kib", lambda: 4)
    huge, small = (step.plan for step in steps_of(f"{DPDK}page_size: [huge, 4KiB]\n")[-2:])
    if huge.small_pages:
        huge, small = small, huge
    engines = [FakeEngine(1048576), FakeEngine(None)]
    assert used_kib(huge, engines) == 1048576  # type: ignore[arg-type]
    assert used_kib(small, []) == 4
    for plan, page_kib in ((huge, 4), (small, 2048)):
        with pytest.raises(TrialFailed, match=f"has pages of {page_kib} KiB, and "):
            used_kib(plan, [FakeEngine(page_kib)])  # type: ignore[list-item]


def test_pages_are_counted_until_the_kernel_ends_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    ends = "import os, signal\nos.write(1, b'...')\nos.kill(os.getpid(), signal.SIGBUS)"
    monkeypatch.setattr(hugepages, "_TOUCH", f"{ends}\nos.write(1, b'.')")
    assert hugepages.count_touchable(2048, 9) == 3


def test_run_uses_a_share_of_free_pages(machine: list[HugepagePool]) -> None:
    assert hugepages.obtainable([100]) == (HugepagePool(2048, 2000, 1800),)
    machine[:] = [HugepagePool(2048, 0, 0), HugepagePool(1048576, 4, 4)]
    assert hugepages.used_size_kb() == 1048576
    assert [pool.free for pool in hugepages.obtainable([64, 64])] == [0, 3]


def test_buffer_does_not_cross_small_pages() -> None:
    assert on_small_pages(2432) == 4096
    assert on_small_pages(1500) == 2048
    assert on_small_pages(9500) == 12288


NO_HUGE = ["--no-huge", "--no-shconf", "-m"]


def small(switch: WithPages) -> WithPages:
    switch.small_pages = True
    switch.ports, switch.mode = tuple(PORTS[:2]), ConnectMode.CROSS_CONNECT  # type: ignore[attr-defined]
    return switch


def test_testpmd_on_small_pages() -> None:
    switch = small(testpmd.Testpmd())
    assert isinstance(switch, testpmd.Testpmd)
    switch.cores = (0,)
    arguments = switch._eal_options("sm")
    assert arguments[:4] == [*NO_HUGE, str(switch.memory_mb())]
    assert "--in-memory" not in arguments and "--single-file-segments" not in arguments
    assert switch.memory_mb() >= 48 + 2 * 16384 * 4096 // (1 << 20)
    switch.small_pages = False
    assert switch._eal_options("sm")[0] == "--in-memory"


def test_ovs_dpdk_on_small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ovs_dpdk, "memory_nodes", lambda: 2)

    class Instance:
        bridge = "smbr"

    switch = ovs_dpdk.OvsDpdk()
    switch._ports, switch._cores = PORTS[:2], [1]
    switch.instance = Instance()  # type: ignore[assignment]
    assert switch.settings()["dpdk-socket-mem"] == "182,182"
    switch.small_pages = True
    page_kib = switch.settings()
    assert page_kib["dpdk-extra"] == (
        "--no-pci --no-huge --legacy-mem --no-shconf -m 450 --no-telemetry --file-prefix=smbr"
    )
    assert not {"dpdk-socket-mem", "dpdk-socket-limit"} & page_kib.keys()


def test_fastclick_on_small_pages(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    monkeypatch.setattr(fastclick.FastClick, "_pool", lambda _self: "DPDK")
    monkeypatch.setattr(fastclick, "memory_nodes", lambda: 1)
    switch = small(fastclick.FastClick())
    assert isinstance(switch, fastclick.FastClick)
    switch.session, switch.cores = session, (0,)
    arguments = switch._eal(Path("/click"), ["--no-pci"])
    assert arguments[4:8] == [*NO_HUGE, str(96 + 1024)]
    switch.small_pages = False
    assert "--in-memory" in switch._eal(Path("/click"), [])


def test_t4p4s_on_small_pages() -> None:
    switch = small(t4p4s.T4p4s())
    assert isinstance(switch, t4p4s.T4p4s)
    memory = switch.eal_memory(switch.memory_mb())
    arguments = t4p4s.arguments(
        Path("/p"), PORTS[:2], ConnectMode.CROSS_CONNECT, 1, "sm", memory=memory
    )
    assert arguments[3:7] == [*NO_HUGE, "512"] and "--in-memory" not in arguments


def test_bess_on_small_pages() -> None:
    switch = small(bess.Bess())
    assert isinstance(switch, bess.Bess)
    switch.cores = (0,)
    command = switch._daemon(Path("/bessd"), Path("/folder"), "/folder/grpc.sock")
    assert command[command.index("-m") + 1] == "0"
    assert switch.memory_mb() == 680
    switch.small_pages = False
    command = switch._daemon(Path("/bessd"), Path("/folder"), "/folder/grpc.sock")
    assert command[command.index("-m") + 1] == "256"


def test_vpp_on_small_pages() -> None:
    text = vpp_commands.startup_config(Path("/d"), "smx", 0, [2], small_pages=True)
    assert "data-size 2048 page-size 4K }" in text
    assert "page-size default-hugepage }" in vpp_commands.startup_config(Path("/d"), "smx", 0, [2])
    assert small(vpp.Vpp()).memory_details(10) == {"memory_mb": "10"}


def test_instruments_on_small_pages() -> None:
    port = NodePort(PortKind.VHOST_USER, "02:00:00:00:00:01", "10.0.0.1/24", socket_inside="/s")
    for chosen in (False, True):
        station = Station("tx0", replace(port, small_pages=chosen), (0,), print)  # type: ignore[arg-type]
        first = NO_HUGE if chosen else ["--in-memory", "--single-file-segments", "-m"]
        assert eal_memory(station, 64) == [*first, "64"]


def test_moongen_always_has_small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "switch: linux-bridge\ngenerator: moongen\nduration: 2s\n"
    steps, _ = choose_pages(steps_of(text))
    assert {step.plan.small_pages for step in steps if not step.is_baseline} == {True}
    with pytest.raises(UsageError, match="moongen has only pages of 4 KiB, not page_size huge"):
        steps_of(f"{text}page_size: huge\n")


@pytest.mark.parametrize(("used", "goes_on"), [(2048, True), (None, True), (4, False)])
def test_run_is_resumed_with_its_page_size_only(
    tmp_path: Path, used: int | None, goes_on: bool
) -> None:
    steps, _ = choose_pages(steps_of(DPDK))
    (begun,) = [step.plan.trial for step in steps if not step.is_baseline]
    record = synthetic_record(begun, page_size_kib=used)
    run = open_run(write_run(tmp_path, [record]))
    if goes_on:
        check_pages(run, steps)
        return
    with pytest.raises(UnavailableError, match="pages of 4 KiB, and would have hugepages of 2 MiB"):
        check_pages(run, steps)


def test_set_page_size_needs_no_check(tmp_path: Path) -> None:
    steps, _ = choose_pages(steps_of(f"{DPDK}page_size: huge\n"))
    (begun,) = [step.plan.trial for step in steps if not step.is_baseline]
    record = synthetic_record(begun, page_size_kib=4)
    check_pages(open_run(write_run(tmp_path, [record])), steps)
