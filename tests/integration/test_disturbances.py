"""Recovery and reconfiguration on real switches: outages of a set length, restarts, changes.

All tests of a switch share one deployment; the restart comes last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from switchmark.certify.support.rig import Rig, deploy, set_priority
from switchmark.host.cores.cpu_limit import find_hierarchy
from switchmark.method import recovery
from switchmark.method.reconfiguration import reconfigure
from switchmark.method.recovery import recover
from switchmark.method.soak import soak
from switchmark.method.support.measurer import LoadPoint
from switchmark.switch.bess import Bess
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.macvlan import Macvlan
from switchmark.switch.ovs_afxdp import OvsAfxdp
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.ovs_netdev import OvsNetdev
from switchmark.switch.snabb import Snabb
from switchmark.switch.support.base import Switch
from switchmark.switch.support.changes import PORTS, RULES, changes_of
from switchmark.switch.support.ports import device_of
from switchmark.switch.tc_redirect import TcRedirect
from switchmark.switch.vpp import Vpp
from switchmark.switch.xdp_redirect import XdpRedirect
from switchmark.trial.deployed_measurer import DeployedMeasurer
from switchmark.trial.disturbed import DisturbedMeasurer
from switchmark.trial.verification import wait_reachable
from tests.integration.machine import needs_root
from tests.integration.truth_rig import find, reference
from tests.truths import truth

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.usefixtures("module_state_dir"),
    needs_root,
]
LOAD_PPS = 10_000
AT_S, TAIL_S = 0.2, 0.3
FLOWS_AGAIN_S = 90.0  # until frames pass after a restart on a busy machine
LIMIT_PPS = 20_000
PORTS_ONLY = (Macvlan, Snabb)
WITH_A_TABLE = {Bess: "static-mac", XdpRedirect: "static-mac"}  # by default they have no table


@pytest.fixture(scope="module")
def rig(request: pytest.FixtureRequest, module_state_dir: None) -> Iterator[Rig]:
    switch: Switch = request.param()
    availability = switch.availability()
    if not availability.available:
        pytest.skip(f"{switch.name}: {availability.reason}")
    mode = WITH_A_TABLE.get(request.param)
    with deploy(switch, **({"connect_mode": mode} if mode else {})) as deployment:
        yield deployment


def on(*switches: type[Switch]) -> pytest.MarkDecorator:
    """Tests on the same switch share its deployment."""
    names = [one.name for one in switches]
    return pytest.mark.parametrize("rig", switches, indirect=True, scope="module", ids=names)


def disturber(rig: Rig) -> DisturbedMeasurer:
    return DisturbedMeasurer(rig.plan.trial, rig.deployment.ends, lambda: None)


@truth("reconfiguration", "the port taken down for a set time", "kernel", "30 ms")
@on(LinuxBridge)
def test_outage_length_is_measured_by_frames_and_by_silence(rig: Rig) -> None:
    """The bridge's port is down for a set time, in which no frame passes."""
    switch = rig.deployment.switch
    assert isinstance(switch, LinuxBridge)
    port = device_of(switch.ports[1])
    bounds: list[tuple[float, float]] = []

    def cut() -> None:
        begun = time.monotonic()
        switch.namespace.batch("ip", [f"link set dev {port} down"])
        surely = time.monotonic()
        time.sleep(0.3)
        least = time.monotonic() - surely
        switch.namespace.batch("ip", [f"link set dev {port} up"])
        bounds.append((least, time.monotonic() - begun))

    def off_by() -> float:
        """Return the distance to the bounds of the outage, as `ip` is slow on a busy machine."""
        recovery = disturber(rig).disturb(60.0, LOAD_PPS, AT_S, cut, TAIL_S)
        least, most = bounds[-1]
        lengths = recovery.outage_s, recovery.silence.seconds
        return max(0.0, least - min(lengths), max(lengths) - most)

    find(0, 0.03, off_by)


@on(LinuxBridge, TcRedirect, Macvlan, XdpRedirect, OvsNetdev, OvsAfxdp, OvsDpdk, Vpp, Bess, Snabb)
def test_changes_are_made_and_undone_under_load(rig: Rig) -> None:
    switch = rig.deployment.switch
    changes = changes_of(switch)
    numbers = [int(one.name.split()[0]) for one in changes]
    tables = [] if isinstance(switch, PORTS_ONLY) else [RULES] * 2
    if isinstance(switch, Vpp):  # by default it learns and has a table
        assert rig.plan.mode.value == "learning"
    assert numbers == [PORTS] * 2 + tables

    def stopped_for_good() -> float:
        """Return the number of changes after which frames did not pass again."""
        found = reconfigure(disturber(rig), changes, load_pps=LOAD_PPS, trial_s=0.3)
        assert [one.name for one in found.changes] == [one.name for one in changes]
        measurements = [found.quiet, *(each.disturbance for each in found.changes)]
        return sum(
            not one.resumed or one.point.lost_frames >= one.point.offered_frames
            for one in measurements
        )

    find(0, 0, stopped_for_good)
    assert switch.alive() is None


@truth("soak", "the port taken down in two of six windows", "kernel", "exact")
@on(LinuxBridge)
def test_a_soak_finds_an_outage_and_goes_on(rig: Rig) -> None:
    """The sender's port is down in the third and fourth of six windows. It accepts no frame, so the
    missing frames were never lost."""
    switch = rig.deployment.switch
    assert isinstance(switch, LinuxBridge)
    port, batch = device_of(switch.ports[0]), switch.namespace.batch

    class Cut(DeployedMeasurer):
        def measure(self, duration_s: float, load_pps: float) -> LoadPoint:
            if len(self.points) == 2:
                batch("ip", [f"link set dev {port} down"])
            if len(self.points) == 4:
                batch("ip", [f"link set dev {port} up"])
                wait_reachable(rig.deployment.ends, FLOWS_AGAIN_S)
            return super().measure(duration_s, load_pps)

    measurer = Cut(rig.plan.trial, rig.deployment.ends, lambda: None)
    found = soak(measurer, LOAD_PPS, duration_s=3.0, window_s=0.5)
    assert "took nothing" in " ".join(rig.deployment.faults())
    rig.deployment.forget_faults()
    assert [window.forwarded_pps > 0 for window in found.windows] == [True] * 2 + [False] * 2 + [
        True
    ] * 2
    assert found.windows[2].lost_frames == found.windows[3].lost_frames == 0
    assert found.silence_s is not None
    assert found.silence_s >= 0.5, "1.0 s minus the samples at the ends of the windows"
    assert found.unoffered_ratio >= 2 / 6


@on(LinuxBridge)
def test_bridge_has_the_added_entries(rig: Rig) -> None:
    switch = rig.deployment.switch
    assert isinstance(switch, LinuxBridge)
    join, part, learn, forget = changes_of(switch)

    def members() -> int:
        links = switch.namespace.query("ip", "link", "show")
        return sum(link.get("master") is not None for link in links)

    def entries() -> int:
        return len(switch.namespace.query("bridge", "fdb", "show"))

    before = members(), entries()
    join.apply()
    assert members() == before[0] + PORTS
    part.apply()
    learn.apply()
    assert entries() >= before[1] + RULES
    forget.apply()
    assert members() == before[0]
    assert entries() < before[1] + RULES


@on(LinuxBridge, OvsNetdev, OvsDpdk, Vpp)
def test_killed_switch_forwards_again(rig: Rig) -> None:
    def without_frames_at_the_end() -> float:
        before = set(rig.deployment.switch.process_ids())
        recovery = disturber(rig).disturb(
            2 * FLOWS_AGAIN_S, LOAD_PPS, AT_S, lambda: restart_until_frames_flow(rig), TAIL_S
        )
        assert recovery.silence.seconds > 0, "a restart is always visible"
        assert recovery.missing_frames > 0
        assert rig.deployment.switch.alive() is None
        after = set(rig.deployment.switch.process_ids())
        assert not before & after, "the process is a new one"
        return not recovery.resumed

    find(0, 0, without_frames_at_the_end)


def restart_until_frames_flow(rig: Rig) -> None:
    """Restart until frames arrive, however long that takes.

    The started switch has the same priority as the applications, which poll beside it."""
    set_priority(rig.deployment.session.id, "0")
    rig.deployment.running_switch.restart()
    done_ns = time.monotonic_ns()
    receiver = rig.deployment.ends[0].b
    wait(
        lambda: any(
            one.t_ns - one.duration_ns > done_ns and one.rx_frames > 0 for one in receiver.intervals
        ),
        lambda: receiver.pump(0.05),
    )


def wait(done: Callable[[], bool], look: Callable[[], object]) -> None:
    deadline = time.monotonic() + FLOWS_AGAIN_S
    while not done():
        assert time.monotonic() < deadline, "no frame passes after the restart"
        look()


def test_cpu_limit_holds_for_restarted_switch() -> None:
    if (hierarchy := find_hierarchy()) is None:
        pytest.skip("no control group hierarchy with the cpu controller is mounted here")
    with deploy(reference(), cpu_limit="50%") as rig:
        limit = rig.deployment.running_switch.limit
        before = set(rig.deployment.switch.process_ids())
        assert limit is not None and limit.in_force()
        processes = hierarchy.root / limit.group / "cgroup.procs"
        rig.deployment.running_switch.restart()
        after = set(rig.deployment.switch.process_ids())
        assert after and not after & before, "the process is a new one"
        assert set(map(int, processes.read_text().split())) == after
        assert limit.in_force()


@truth("recovery", "rate of the reference, which has no queue", "ours", "50 ms of 0")
def test_limiter_without_queue_recovers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference loses frames above its rate, and none as soon as the rate is below. It forwards
    again after it was killed and restarted."""
    for name, seconds in (("SHORTEST_RELIEF_S", 0.6), ("RESET_AT_S", 0.1), ("RESET_TAIL_S", 0.3)):
        monkeypatch.setattr(recovery, name, seconds)
    with deploy(reference(limit_pps=LIMIT_PPS, limit_burst=400)) as rig:

        def recovered_s() -> float:
            found = recover(
                disturber(rig), throughput_pps=LIMIT_PPS, overload_s=0.5,
                restart=lambda: restart_until_frames_flow(rig),
            )  # fmt: skip
            assert found.reset.missing_frames > 0, "a restart is always visible"
            if not found.step.overload.lost_frames or found.time is None:
                return 1e9
            return found.time.seconds

        find(0, 0.05, recovered_s)
